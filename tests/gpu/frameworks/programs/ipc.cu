// Legacy IPC: a block's handle is opened by another process, which must find that block's bytes there. Built with
// REFUSAL_IS_RIGHT, a handle that is refused counts as right: all that must never be is other bytes.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "check.h"

namespace {

constexpr std::size_t kCount = std::size_t{1} << 20;  // 4 MiB: an allocation of its own in CUDA too

int Child(const char* text) {
  cudaIpcMemHandle_t handle = {};
  for (std::size_t i = 0; i < sizeof(handle); ++i) {
    reinterpret_cast<unsigned char*>(&handle)[i] =
        static_cast<unsigned char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
  }
  void* opened = nullptr;
  CHECK_CUDA(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  static std::uint32_t host[kCount];
  CHECK_CUDA(cudaMemcpy(host, opened, sizeof(host), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaIpcCloseMemHandle(opened));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    wrong += host[i] != 0x02020202U ? 1U : 0U;
  }
  return wrong == 0 ? 0 : 2;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) {
    return Child(arguments[2]);
  }
  void* blocks[4] = {};
  for (int i = 0; i < 4; ++i) {
    CHECK_CUDA(cudaMalloc(&blocks[i], kCount * 4));
    CHECK_CUDA(cudaMemset(blocks[i], i, kCount * 4));
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle = {};
  const cudaError_t status = cudaIpcGetMemHandle(&handle, blocks[2]);
  std::string value = status == cudaSuccess ? "" : "refused_" + std::to_string(static_cast<int>(status));
  if (status == cudaSuccess) {
    std::string command = std::string(arguments[0]) + " child ";
    for (std::size_t i = 0; i < sizeof(handle); ++i) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", reinterpret_cast<unsigned char*>(&handle)[i]);
      command += digits;
    }
    const int code = std::system(command.c_str());
    value = code == 0 ? "right" : "wrong_" + std::to_string(code);
  }
#ifdef REFUSAL_IS_RIGHT
  std::printf("info handle %s\n", value.c_str());
  if (status == cudaErrorInvalidValue) {
    value = "right";
  }
#endif
  std::printf("result ipc %s\n", value.c_str());
  for (void* block : blocks) {
    CHECK_CUDA(cudaFree(block));
  }
  return 0;
}
