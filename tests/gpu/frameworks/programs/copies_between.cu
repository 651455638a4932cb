// Copies and fills of two devices' memory with no peer access enabled, of every shape that CUDA makes of cudaMalloc
// memory: rows, volumes, batches, captured ones, and nodes of a graph; device 0 acts. What they leave is summed up on
// the host.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "check.h"
#include "need_two_devices.h"

namespace {

constexpr std::size_t kPitch = 4096, kWidth = 1000, kHeight = 40, kDepth = 6, kRows = 64;
constexpr std::size_t kBytes = kPitch * kRows * (kDepth + 1);

// A sum that tells where each byte lies.
void Report(const char* name, int round, int device, const void* block) {
  std::vector<std::uint8_t> host(kBytes);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaSetDevice(device));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemcpy(host.data(), block, kBytes, cudaMemcpyDeviceToHost));
  std::uint64_t sum = 0;
  for (const std::uint8_t byte : host) {
    sum = sum * 1099511628211ULL + byte;
  }
  std::printf("result %s_%d %llu\n", name, round, static_cast<unsigned long long>(sum));
  CHECK_CUDA(cudaSetDevice(0));
}

void Fresh(void* const ends[2], int round) {
  for (int d = 0; d < 2; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    std::vector<std::uint8_t> host(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) {
      host[i] = static_cast<std::uint8_t>(i * 7 + i / kPitch + static_cast<std::size_t>(d * 3 + round));
    }
    CHECK_CUDA(cudaMemcpy(ends[d], host.data(), kBytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  CHECK_CUDA(cudaSetDevice(0));
}

cudaMemcpy3DParms Volume(void* to, void* from) {
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(from, kPitch, kWidth, kRows);
  copy.dstPtr = make_cudaPitchedPtr(to, kPitch, kWidth, kRows);
  copy.srcPos = copy.dstPos = make_cudaPos(16, 2, 1);
  copy.extent = make_cudaExtent(kWidth, kHeight, kDepth);
  copy.kind = cudaMemcpyDeviceToDevice;
  return copy;
}

void Rows(void* const ends[2], cudaStream_t stream) {
  for (int way = 0; way < 12; ++way) {
    const int to = way % 2, from = 1 - to;
    Fresh(ends, way);
    const cudaMemcpy3DParms volume = Volume(ends[to], ends[from]);
    if (way < 2) {
      CHECK_CUDA(cudaMemcpy2D(ends[to], kPitch, ends[from], kPitch, kWidth, kHeight, cudaMemcpyDeviceToDevice));
    } else if (way < 4) {
      CHECK_CUDA(cudaMemcpy2DAsync(ends[to], kPitch, ends[from], kPitch, kWidth, kHeight, cudaMemcpyDefault, stream));
    } else if (way < 6) {
      CHECK_CUDA(cudaMemcpy3D(&volume));
    } else if (way < 8) {
      CHECK_CUDA(cudaMemcpy3DAsync(&volume, stream));
    } else {
      cudaMemcpy3DPeerParms named = {};
      named.srcPtr = volume.srcPtr, named.dstPtr = volume.dstPtr;
      named.srcPos = volume.srcPos, named.dstPos = volume.dstPos;
      named.extent = volume.extent;
      named.srcDevice = from, named.dstDevice = to;
      if (way < 10) {
        CHECK_CUDA(cudaMemcpy3DPeer(&named));
      } else {
        CHECK_CUDA(cudaMemcpy3DPeerAsync(&named, stream));
      }
    }
    Report("rows", way, to, ends[to]);
  }
  // Fills of the other device's rows where that device acts, as CUDA demands of them, and to the host and back.
  std::vector<std::uint8_t> host(kPitch * kRows);
  Fresh(ends, 0);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaMemset2D(ends[1], kPitch, 1, kWidth, kHeight));
  CHECK_CUDA(cudaMemset2DAsync(ends[1], kPitch, 2, kWidth / 2, kHeight, nullptr));
  CHECK_CUDA(cudaMemset3D(make_cudaPitchedPtr(ends[1], kPitch, kWidth, kRows), 3, make_cudaExtent(10, 20, kDepth)));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaMemcpy2D(host.data(), kPitch, ends[1], kPitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaMemcpy2D(static_cast<char*>(ends[1]) + kPitch * kRows, kPitch, host.data(), kPitch, kWidth, kHeight,
                          cudaMemcpyHostToDevice));
  Report("fills", 0, 1, ends[1]);
}

#if CUDART_VERSION >= 13000
void Batch(void* const ends[2], cudaStream_t stream) {
  char* const blocks[2] = {static_cast<char*>(ends[0]), static_cast<char*>(ends[1])};
  const void* from[] = {blocks[1], blocks[0] + kPitch};
  void* const to[] = {blocks[0] + 8 * kPitch, blocks[1] + 8 * kPitch};
  const std::size_t sizes[] = {5 * kPitch, 3 * kPitch};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  Fresh(ends, 1);
  CHECK_CUDA(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  Report("batch", 0, 0, ends[0]);
  Report("batch", 1, 1, ends[1]);
}
#endif

// What each launch leaves of a graph whose fills and copies concern both devices.
void Launch(const char* name, cudaGraph_t graph, void* const ends[2], cudaStream_t stream) {
  cudaGraphExec_t exec = nullptr;
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    Fresh(ends, launch);
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    Report(name, 2 * launch, 0, ends[0]);
    Report(name, 2 * launch + 1, 1, ends[1]);
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

void Graphs(void* const ends[2], cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemsetAsync(ends[0], 9, kBytes / 2, stream));
  CHECK_CUDA(cudaMemcpy2DAsync(ends[0], kPitch, ends[1], kPitch, kWidth, kHeight, cudaMemcpyDeviceToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(static_cast<char*>(ends[1]) + kBytes / 2, ends[0], kPitch, cudaMemcpyDefault, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  Launch("captured", graph, ends, stream);

  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t filled = nullptr, copied = nullptr, rows = nullptr;
  cudaMemsetParams fill = {};
  fill.dst = ends[0], fill.value = 5, fill.elementSize = 4, fill.width = kBytes / 8, fill.height = 1;
  const cudaMemcpy3DParms volume = Volume(ends[0], ends[1]);
  CHECK_CUDA(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill));
  CHECK_CUDA(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, ends[0], ends[1], kPitch, cudaMemcpyDeviceToDevice));
  CHECK_CUDA(cudaGraphAddMemcpyNode(&rows, graph, &copied, 1, &volume));
  Launch("nodes", graph, ends, stream);
}

}  // namespace

int main() {
  NeedTwoDevices();
  void* ends[2] = {};
  cudaStream_t stream = nullptr;
  for (int d = 1; d >= 0; --d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaMalloc(&ends[d], kBytes));
  }
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Rows(ends, stream);
#if CUDART_VERSION >= 13000
  Batch(ends, stream);
#endif
  Graphs(ends, stream);
  for (int d = 0; d < 2; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaFree(ends[d]));
  }
  return 0;
}
