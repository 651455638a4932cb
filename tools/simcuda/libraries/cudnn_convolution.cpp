#include "cudnn_convolution.h"

namespace stalloc::simcuda::libraries {

// The engines that the heuristics prefer on tensor cores read and write channels-last tensors. Where the program's are
// not, copies of all three lie in the workspace. A filter's gradient is summed in single precision by several blocks.
std::int64_t ConvolutionWorkspaceBytes(const Convolution& convolution) {
  std::int64_t bytes = 0;
  for (const CudnnTensor* tensor : {&convolution.image, &convolution.filter, &convolution.response}) {
    if (!tensor->channels_last()) bytes += tensor->size_bytes();
  }
  if (convolution.pass == ConvolutionPass::kBackwardFilter && convolution.filter.element_bytes() < 4) {
    bytes += convolution.filter.elements() * 4;
  }
  return bytes;
}

}  // namespace stalloc::simcuda::libraries
