// simtrainer: a CUDA program like any other, linked to the shared CUDA runtime and to nothing of stalloc. It trains a
// transformer as far as memory goes (model.h), and prints for each step a checksum over what it read back, in place of
// a loss. tools/quickstart runs it on machines without a GPU.
//
// usage: simtrainer [steps]   prints steps, then one line that sums up; exit code 1 if any CUDA call fails
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "model.h"
#include "tensor.h"

namespace {

using stalloc::simtrainer::Check;

std::uint64_t PoolAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  Check(cudaMemPoolGetAttribute(pool, attribute, &value), "cudaMemPoolGetAttribute");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const long steps = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 10;
  if (argc > 2 || steps < 1) {
    std::fprintf(stderr, "usage: simtrainer [steps]\n");
    return 2;
  }
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cudaMemPool_t pool = nullptr;
  Check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  std::uint64_t keep_everything = UINT64_MAX;  // as PyTorch does
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_everything), "cudaMemPoolSetAttribute");
  {
    stalloc::simtrainer::Model model({}, stream);
    for (long step = 1; step <= steps; ++step) {
      std::printf("step %2ld  checksum %016" PRIx64 "\n", step, model.Step());
    }
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto live = static_cast<double>(PoolAttribute(pool, cudaMemPoolAttrUsedMemHigh));
    const auto held = static_cast<double>(PoolAttribute(pool, cudaMemPoolAttrReservedMemHigh));
    std::printf("peak live %.2f GiB, peak reserved %.2f GiB, fragmentation %.2f %%\n", live / kGiB, held / kGiB,
                held > 0 ? 100.0 * (1.0 - live / held) : 0.0);
  }
  Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return 0;
}
