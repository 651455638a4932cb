// Which device is current, and whether its primary context is active: what PyTorch asks seven times for each tensor
// that it allocates and frees, and several times in each operator. The runtime library takes a lock for the first (39
// ns on an H200's host), the driver 35 ns for the second; as long as nothing can have changed they are answered as
// before.
//
// Any thread; no locks; allocates nothing. Only what the real function has answered with success is remembered.
#include <array>
#include <atomic>
#include <cstdint>

#include "context_changes.h"
#include "driver_call.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime_library.h"

namespace stalloc::interpose {
namespace {

// The device of a thread's current context. A context stays on its device; the count tells whether the handle may be
// another context's meanwhile, and the driver, which is asked each time, whether another is current: any library in the
// process may have made it so, by ways that are not seen here.
struct CurrentDevice {
  CUcontext context;
  std::uint32_t changes;
  int device;
};
constinit thread_local CurrentDevice current_device __attribute__((tls_model("initial-exec"))) = {};

// The flags of a device's primary context while it is active. One word, so that it is read and written whole: the count
// of changes above, the flags below, and in the lowest bit whether anything is known.
constexpr std::size_t kDevices = 64;
constexpr unsigned kFlagsLimit = 1U << 31;
constinit std::array<std::atomic<std::uint64_t>, kDevices> active_primaries = {};

std::uint64_t Known(std::uint32_t changes, unsigned flags) noexcept {
  return std::uint64_t{changes} << 32 | std::uint64_t{flags} << 1 | 1;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

cudaError_t cudaGetDevice(int* device) {
  const std::uint32_t changes = context_changes.load(std::memory_order_acquire);
  CUcontext context = nullptr;
  const bool asked = device != nullptr && ServingAlready() && SetDeviceTakesEffectAtOnce() &&
                     STALLOC_CALL_DRIVER(cuCtxGetCurrent, &context) == CUDA_SUCCESS && context != nullptr;
  CurrentDevice& known = current_device;
  if (asked && known.context == context && known.changes == changes) {
    *device = known.device;
    return cudaSuccess;
  }
  const cudaError_t error = Forward<Entry::k_cudaGetDevice>(device);
  if (asked && error == cudaSuccess) known = {context, changes, *device};
  return error;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  const bool recallable = flags != nullptr && active != nullptr && device >= 0 &&
                          static_cast<std::size_t>(device) < kDevices && ServingAlready();
  if (!recallable) return Forward<Entry::k_cuDevicePrimaryCtxGetState>(device, flags, active);
  std::atomic<std::uint64_t>& primary = active_primaries[static_cast<std::size_t>(device)];
  const std::uint32_t changes = context_changes.load(std::memory_order_acquire);
  const std::uint64_t known = primary.load(std::memory_order_relaxed);
  if (known != 0 && known >> 32 == changes) {
    *flags = static_cast<std::uint32_t>(known) >> 1;
    *active = 1;
    return CUDA_SUCCESS;
  }
  const CUresult result = Forward<Entry::k_cuDevicePrimaryCtxGetState>(device, flags, active);
  if (result == CUDA_SUCCESS && *active != 0 && *flags < kFlagsLimit) {
    primary.store(Known(changes, *flags), std::memory_order_relaxed);
  }
  return result;
}

// The program's own changes of those flags.
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return Changed(Forward<Entry::k_cuDevicePrimaryCtxSetFlags>(device, flags));
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  return Changed(Forward<Entry::k_cuDevicePrimaryCtxSetFlags_v2>(device, flags));
}

CUresult cuCtxSetFlags(unsigned int flags) { return Changed(Forward<Entry::k_cuCtxSetFlags>(flags)); }
