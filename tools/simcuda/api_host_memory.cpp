// Entry points of host memory that the device can reach: pinned, registered and managed. It is real host memory.
#include <cstdlib>

#include "call.h"

namespace stalloc::simcuda {
namespace {

constexpr std::size_t kHostAlignmentBytes = 4096;

CUresult AllocateHost(Call& call, std::size_t size_bytes, bool managed, void** address) {
  if (address == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (RoundUp(size_bytes, kHostAlignmentBytes) < size_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = std::aligned_alloc(kHostAlignmentBytes, RoundUp(size_bytes, kHostAlignmentBytes));
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  call.machine.host_ranges[reinterpret_cast<std::uint64_t>(memory)] = {size_bytes, managed, true, call.context};
  *address = memory;
  return CUDA_SUCCESS;
}

CUresult Forget(Call& call, const void* address, bool allocated) {
  const auto it = call.machine.host_ranges.find(reinterpret_cast<std::uint64_t>(address));
  if (it == call.machine.host_ranges.end() || it->second.allocated != allocated || it->second.managed) {
    return allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  call.machine.scheduler.WaitForDevice(call.context->device);
  call.machine.host_ranges.erase(it);
  if (allocated) std::free(const_cast<void*>(address));
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMemAllocHost(void** address, std::size_t size_bytes) {
  return Enter(SIMCUDA_ENTRY(cuMemAllocHost),
               [&](Call& call) { return AllocateHost(call, size_bytes, false, address); });
}

SIMCUDA_EXPORT CUresult cuMemHostAlloc(void** address, std::size_t size_bytes, unsigned) {
  return Enter(SIMCUDA_ENTRY(cuMemHostAlloc),
               [&](Call& call) { return AllocateHost(call, size_bytes, false, address); });
}

SIMCUDA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size_bytes, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuMemAllocManaged), [&](Call& call) {
    if (address == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
      return CUDA_ERROR_INVALID_VALUE;
    void* memory = nullptr;
    const CUresult result = AllocateHost(call, size_bytes, true, &memory);
    if (result == CUDA_SUCCESS) *address = reinterpret_cast<CUdeviceptr>(memory);
    return result;
  });
}

SIMCUDA_EXPORT CUresult cuMemFreeHost(void* address) {
  return Enter(SIMCUDA_ENTRY(cuMemFreeHost), [&](Call& call) { return Forget(call, address, true); });
}

SIMCUDA_EXPORT CUresult cuMemHostRegister(void* address, std::size_t size_bytes, unsigned) {
  return Enter(SIMCUDA_ENTRY(cuMemHostRegister), [&](Call& call) {
    if (address == nullptr || size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto begin = reinterpret_cast<std::uint64_t>(address);
    const auto next = call.machine.host_ranges.lower_bound(begin);
    if (call.machine.FindHostRange(begin) != nullptr ||
        (next != call.machine.host_ranges.end() && next->first < begin + size_bytes)) {
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    call.machine.host_ranges[begin] = {size_bytes, false, false, call.context};
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemHostUnregister(void* address) {
  return Enter(SIMCUDA_ENTRY(cuMemHostUnregister), [&](Call& call) { return Forget(call, address, false); });
}

SIMCUDA_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_address, void* address, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuMemHostGetDevicePointer), [&](Call& call) {
    const auto host = reinterpret_cast<std::uint64_t>(address);
    if (device_address == nullptr || flags != 0 || call.machine.FindHostRange(host) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *device_address = host;  // one address space
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
