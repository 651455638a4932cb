// Measured on an H200 (cuDNN 9.19, PyTorch 2.11, its heuristics without benchmarking): 13 shapes, two types, two
// layouts. What is modelled is within one per cent for most of them. What is not: Winograd's transforms in single
// precision (a 3x3 convolution takes one copy less, or a few more), and engines that read three channels in place.
#include "cudnn_convolution.h"

#include <cuda.h>

#include <algorithm>

namespace stalloc::simcuda::libraries {
namespace {

// Kernels on tensor cores read this many channels of 16-bit types at once; fewer are padded.
constexpr std::int64_t kHalfChannels = 8;

std::int64_t Channels(const CudnnTensor& tensor) { return tensor.sizes.size() > 1 ? tensor.sizes[1] : 1; }

std::int64_t Spatial(const CudnnTensor& tensor) {
  std::int64_t product = 1;
  for (std::size_t i = 2; i < tensor.sizes.size(); ++i) product *= tensor.sizes[i];
  return product;
}

std::int64_t RoundUp(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

std::int64_t PaddedBytes(const CudnnTensor& tensor, std::int64_t unit) {
  const std::int64_t channels = std::max<std::int64_t>(Channels(tensor), 1);
  return tensor.size_bytes() / channels * RoundUp(channels, unit);
}

int Multiprocessors() {
  CUdevice device = 0;
  int count = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS) {
    return 132;
  }
  return count;
}

// The sum over images and positions is split where its tiles are fewer than the multiprocessors; every part has sums of
// its own in single precision.
std::int64_t PartialSumsBytes(const CudnnTensor& filter, std::int64_t unit) {
  const std::int64_t rows = filter.sizes.empty() ? 1 : filter.sizes[0];
  const std::int64_t columns = RoundUp(Channels(filter), unit) * Spatial(filter);
  const std::int64_t tile = rows >= 128 && columns >= 128 ? 128 : 64;
  const std::int64_t tiles = (RoundUp(rows, tile) / tile) * (RoundUp(columns, tile) / tile);
  return Multiprocessors() / tiles * rows * columns * 4;
}

}  // namespace

// The engines that the heuristics prefer work on channels-last tensors. Where the program's are not, the workspace
// holds copies of all three, except for 1x1 convolutions, which are products of matrices in either layout. In single
// precision tensor cores take four channels; convolutions of three are done the other way round, on planes.
std::int64_t ConvolutionWorkspaceBytes(const Convolution& convolution) {
  const CudnnTensor &image = convolution.image, &filter = convolution.filter, &response = convolution.response;
  const ConvolutionPass pass = convolution.pass;
  if (Channels(filter) == 1 && Channels(image) > 1) return 0;  // each channel on its own
  const std::int64_t unit = image.element_bytes() == 2 ? kHalfChannels : 1;
  const std::int64_t operands = PaddedBytes(image, unit) + PaddedBytes(filter, unit);
  const std::int64_t all = operands + response.size_bytes();
  if (Spatial(filter) == 1 && Spatial(image) == Spatial(response)) {
    if (image.channels_last() || Spatial(image) % 8 == 0) {
      return pass == ConvolutionPass::kBackwardFilter ? PartialSumsBytes(filter, unit) : 0;
    }
    return all - PaddedBytes(filter, unit);
  }
  if (unit == 1 && Channels(image) % 4 != 0) {
    if (pass == ConvolutionPass::kForward) return image.channels_last() ? operands : all;
    return pass == ConvolutionPass::kBackwardData && !image.channels_last() ? 0 : all;
  }
  std::int64_t bytes = 0;
  if (!image.channels_last()) {
    bytes = all;
  } else if (Channels(image) % unit != 0) {
    bytes = operands;
  }
  if (pass == ConvolutionPass::kBackwardFilter) bytes += PartialSumsBytes(filter, unit);
  return bytes;
}

}  // namespace stalloc::simcuda::libraries
