#include "launch.h"

#include <algorithm>

namespace stalloc::simcuda {
namespace {

constexpr std::uint64_t kEmptyKernelNs = 2000;
// A thread of PyTorch's element-wise kernels handles four elements of two to three operands.
constexpr std::uint64_t kBytesPerThread = 32;

std::uint64_t Product(const std::array<unsigned, 3>& size) { return std::uint64_t{size[0]} * size[1] * size[2]; }

}  // namespace

CUresult CheckShape(const Card& card, const Function& function, const LaunchShape& shape) {
  constexpr std::uint64_t kMaxThreads = 1024;
  constexpr unsigned kMaxGrid = 65535;
  if (Product(shape.grid) == 0 || Product(shape.block) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (Product(shape.block) > kMaxThreads || shape.block[2] > 64) return CUDA_ERROR_INVALID_VALUE;
  if (shape.grid[0] > 0x7fffffffu || shape.grid[1] > kMaxGrid || shape.grid[2] > kMaxGrid)
    return CUDA_ERROR_INVALID_VALUE;
  const auto limit =
      static_cast<unsigned>(std::min(function.max_dynamic_shared_bytes, card.shared_bytes_per_block_optin));
  return shape.dynamic_shared_bytes > limit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

std::uint64_t LaunchDurationNs(const Card& card, const LaunchShape& shape) {
  const std::uint64_t bytes = Product(shape.grid) * Product(shape.block) * kBytesPerThread;
  return std::max(kEmptyKernelNs, bytes * 1000 / BytesPerMicrosecond(card));
}

}  // namespace stalloc::simcuda
