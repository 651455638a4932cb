// Launch: a kernel's turn on the device. It takes time by a simple model and touches nothing. Called under the
// machine's lock.
#pragma once

#include <array>
#include <memory>

#include "cards.h"
#include "code.h"
#include "stream.h"

namespace stalloc::simcuda {

struct LaunchShape {
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  unsigned dynamic_shared_bytes;
};

// CUDA_ERROR_INVALID_VALUE if the card cannot launch it.
CUresult CheckShape(const Card& card, const Function& function, const LaunchShape& shape);

// Device time: most kernels of training wait for memory, so a thread counts as the bytes that one of an element-wise
// kernel moves; none is shorter than a launch that does nothing.
std::uint64_t LaunchDurationNs(const Card& card, const LaunchShape& shape);

class Launch : public Work {
 public:
  Launch(const Card& card, std::shared_ptr<Function> function, const LaunchShape& shape)
      : Work(LaunchDurationNs(card, shape)), function_(std::move(function)), shape_(shape) {}
  CUresult Run(Machine&, Stream&) override { return CUDA_SUCCESS; }
  CUgraphNodeType node_type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }

  const Function& function() const { return *function_; }
  const LaunchShape& shape() const { return shape_; }

 private:
  std::shared_ptr<Function> function_;
  LaunchShape shape_;
};

}  // namespace stalloc::simcuda
