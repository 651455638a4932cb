// A plan for all sizes of an iteration whose requests repeat while their sizes scale (a new sequence length every
// step).
//
// Learnt once, off the path: the law of each size (size_laws.h) and, for each example seen, the order that places it
// best. Used when an iteration has shown its parameters, that is the sizes of one or two of its first requests: the
// rest is predicted and placed in the orders of the nearest examples, in one or two greedy passes. An order that packs
// one length tightly packs its neighbours almost as tightly, because nearly all sizes scale alike.
//
// A plan made from predicted sizes is advice like any other: a request that turns out larger than predicted is served
// online. Learning is for a background thread; Place is for one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "planner/model.h"
#include "planner/size_laws.h"
#include "planner/solve.h"

namespace stalloc::planner {

struct PredictedPlan {
  std::vector<Bytes> sizes;  // of all requests, as predicted
  Placement placement;       // for these sizes, valid but for the capacity; empty if they are malformed (FindMalformed)
};

class ParametricPlan {
 public:
  // `shape` has the lifetimes, streams, fixed blocks and alignment that all examples share; its own sizes do not count.
  // examples[k][i] is the size of request i in example k: at least one example, all with as many sizes as `shape` has
  // requests. `options` says how long each example may be searched.
  ParametricPlan(const Problem& shape, const std::vector<std::vector<Bytes>>& examples, const SolveOptions& options);
  ~ParametricPlan();
  ParametricPlan(ParametricPlan&&) noexcept;
  ParametricPlan& operator=(ParametricPlan&&) noexcept;

  const SizeLaws& laws() const;

  // `values[k]` is the size of request laws().parameters[k] in the iteration at hand.
  PredictedPlan Place(const std::vector<Bytes>& values);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace stalloc::planner
