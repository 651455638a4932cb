// simtrainer: a CUDA program like any other, linked to the shared CUDA runtime and to nothing of stalloc. It trains a
// transformer as far as memory goes (model.h) and reads back what it wrote, in place of a loss. tools/quickstart runs
// it on machines without a GPU.
//
// usage: simtrainer [steps [layers [batch [sequence]]]]
// Prints one line of JSON: each step's checksum over what was read back, and the memory pool's own counters. Exit code
// 1 if any CUDA call fails. Under a launcher each rank trains on the device of its own that LOCAL_RANK says, as under
// torchrun, if there are so many.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "model.h"
#include "tensor.h"

namespace {

using stalloc::simtrainer::Check;

std::uint64_t PoolAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  Check(cudaMemPoolGetAttribute(pool, attribute, &value), "cudaMemPoolGetAttribute");
  return value;
}

// The device of this rank, made current.
int SelectDevice() {
  int count = 0;
  Check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  const char* rank = std::getenv("LOCAL_RANK");
  const int device = rank == nullptr ? 0 : static_cast<int>(std::strtol(rank, nullptr, 10)) % count;
  Check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

}  // namespace

constexpr auto kStepTime = std::chrono::milliseconds(100);

int main(int argc, char** argv) {
  const long steps = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 20;
  stalloc::simtrainer::Shape shape;
  if (argc > 2) shape.layers = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) shape.batch = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) shape.sequence = std::strtoull(argv[4], nullptr, 10);
  if (argc > 5 || steps < 1 || shape.layers < 1 || shape.batch < 1 || shape.sequence < 1) {
    std::fprintf(stderr, "usage: simtrainer [steps [layers [batch [sequence]]]]\n");
    return 2;
  }
  const int device = SelectDevice();
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cudaMemPool_t pool = nullptr;
  Check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t keep_everything = UINT64_MAX;  // as PyTorch does
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_everything), "cudaMemPoolSetAttribute");
  {
    stalloc::simtrainer::Model model(shape, stream);
    std::printf("{\"checksums\": [");
    for (long step = 1; step <= steps; ++step) {
      std::this_thread::sleep_for(kStepTime);  // the arithmetic that is not here
      std::printf("%s\"%016" PRIx64 "\"", step == 1 ? "" : ", ", model.Step());
    }
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::printf("], \"live_bytes\": %" PRIu64 ", \"reserved_bytes\": %" PRIu64 "}\n",
                PoolAttribute(pool, cudaMemPoolAttrUsedMemHigh), PoolAttribute(pool, cudaMemPoolAttrReservedMemHigh));
  }
  Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return 0;
}
