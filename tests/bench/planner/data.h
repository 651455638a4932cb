// The data sets that the planner is measured with. Not part of the product: found by STALLOC_SHARED_DATA or --data.
#pragma once

#include <string>
#include <vector>

#include "planner/model.h"

namespace stalloc::bench {

struct DataSet {
  std::string name;  // "training_traces/vpp"
  planner::Problem problem;
};

// All sets under `folder` whose name contains `filter`, sorted by name. For a trace, its last whole step. Prints what
// cannot be read to stderr and leaves it out.
std::vector<DataSet> LoadDataSets(const std::string& folder, const std::string& filter);

// The steps of a trace's problem one after another until there are at least `requests`.
planner::Problem Tiled(const planner::Problem& step, std::size_t requests);

// The step as one turn of a circle, its requests dealt out to `streams` streams in bursts (about half of them on the
// first), of which each waits for each other one every `between` events on average: what a training step with
// communication and copies on streams of their own looks like. The same for the same arguments.
planner::Problem OnStreams(const planner::Problem& step, std::uint32_t streams, planner::Time between);

}  // namespace stalloc::bench
