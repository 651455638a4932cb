// The workspace of a convolution by cuDNN.
#pragma once

#include <cstdint>

#include "cudnn_tensor.h"

namespace stalloc::simcuda::libraries {

enum class ConvolutionPass { kForward, kBackwardFilter, kBackwardData };

struct Convolution {
  ConvolutionPass pass;
  CudnnTensor image, filter, response;  // x, w, y and their gradients
};

std::int64_t ConvolutionWorkspaceBytes(const Convolution& convolution);

}  // namespace stalloc::simcuda::libraries
