// Contexts that are made, streams and contexts that end. Their handles are used again for others, so the allocator is
// told of an end while the handle still means what it meant.
#include "context_changes.h"
#include "driver_call.h"
#include "primary_contexts.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {
namespace {

template <typename Destroy>
CUresult DestroyStream(CUstream stream, Destroy destroy) noexcept {
  const bool told = ServingAlready();
  if (told) {
    runtime::NoteStreamDestroyed(stream);
    runtime::NoteCapturingStreamEnds(stream);
  }
  const CUresult result = destroy();
  if (told) runtime::NoteCapturingStreamEnded(stream, result == CUDA_SUCCESS);
  return result;
}

bool Succeeded(CUresult result) noexcept { return result == CUDA_SUCCESS; }

// Around the driver's own destruction of a context. `ended(result)`: it has been destroyed.
template <typename Destroy, typename Ended = decltype(&Succeeded)>
CUresult EndContext(CUcontext context, Destroy destroy, Ended ended = &Succeeded) noexcept {
  NoteContextChange();
  const bool told = context != nullptr && Enabled();
  const runtime::EndingContext ending = told ? runtime::NoteContextEnds(context) : runtime::EndingContext{};
  const CUresult result = Changed(destroy());
  if (told) runtime::NoteContextEnded(ending, ended(result));
  return result;
}

void ContextLeft() noexcept {
  if (ServingAlready()) runtime::NoteContextLeft();
}

bool PrimaryIsActive(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 0;
  return Forward<Entry::k_cuDevicePrimaryCtxGetState>(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// The primary context of a device, or null. To be given its handle one has to retain it, so it must be active:
// otherwise that would make it.
CUcontext PrimaryContext(CUdevice device) noexcept {
  CUcontext context = nullptr;
  if (!PrimaryIsActive(device) || STALLOC_CALL_DRIVER(cuDevicePrimaryCtxRetain, &context, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  Forward<Entry::k_cuDevicePrimaryCtxRelease_v2>(device);
  return context;
}

// Beside the primary context, which the runtime library may have made in ways that are not seen.
CUresult Made(CUresult result, const CUcontext* context, CUdevice device) noexcept {
  NoteContextChange();
  if (result != CUDA_SUCCESS || !Enabled()) return result;
  runtime::NoteContextMade(PrimaryContext(device), device);
  runtime::NoteContextMade(*context, device);
  return result;
}

// A release ends the context only if it is the last one, which cannot be known before: libraries retain it too.
template <typename Release>
CUresult ReleasePrimary(CUdevice device, Release release) noexcept {
  const CUcontext context = Enabled() ? PrimaryContext(device) : nullptr;
  const CUresult result = Changed(release());
  if (context != nullptr && result == CUDA_SUCCESS && !PrimaryIsActive(device)) {
    EndContext(context, [] { return CUDA_SUCCESS; });  // it has ended
    primary_contexts_ended.fetch_add(1, std::memory_order_release);
  }
  return result;
}

// The context that a green context is by its other name; always the same one.
CUcontext FromGreen(CUgreenCtx green) noexcept {
  CUcontext context = nullptr;
  return STALLOC_CALL_DRIVER(cuCtxFromGreenCtx, &context, green) == CUDA_SUCCESS ? context : nullptr;
}

// What the driver says may be the error of something that was under way before.
template <typename Reset>
CUresult ResetPrimary(CUdevice device, Reset reset) noexcept {
  const auto ended = [&](CUresult result) { return Succeeded(result) || !PrimaryIsActive(device); };
  const CUresult result = EndContext(Enabled() ? PrimaryContext(device) : nullptr, reset, ended);
  if (ended(result)) primary_contexts_ended.fetch_add(1, std::memory_order_release);
  return result;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuStreamDestroy(CUstream stream) {
  return DestroyStream(stream, [&] { return Forward<Entry::k_cuStreamDestroy>(stream); });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return DestroyStream(stream, [&] { return Forward<Entry::k_cuStreamDestroy_v2>(stream); });
}

CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return Made(Forward<Entry::k_cuCtxCreate>(context, flags, device), context, device);
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return Made(Forward<Entry::k_cuCtxCreate_v2>(context, flags, device), context, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned int flags,
                        CUdevice device) {
  return Made(Forward<Entry::k_cuCtxCreate_v3>(context, affinity, count, flags, device), context, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags, CUdevice device) {
  return Made(Forward<Entry::k_cuCtxCreate_v4>(context, parameters, flags, device), context, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const CUresult result = Changed(Forward<Entry::k_cuDevicePrimaryCtxRetain>(context, device));
  if (result == CUDA_SUCCESS && Enabled()) stalloc::runtime::NoteContextMade(*context, device);
  return result;
}

CUresult cuCtxDestroy(CUcontext context) {
  return EndContext(context, [&] { return Forward<Entry::k_cuCtxDestroy>(context); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return EndContext(context, [&] { return Forward<Entry::k_cuCtxDestroy_v2>(context); });
}

// A green context uses the memory of its device's primary context and retains that: it may be the last to do so. It may
// be made before anything is served.
CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc resources, CUdevice device, unsigned int flags) {
  const CUresult result = Changed(Forward<Entry::k_cuGreenCtxCreate>(green, resources, device, flags));
  if (result == CUDA_SUCCESS && Enabled())
    stalloc::runtime::NoteGreenContext(FromGreen(*green), PrimaryContext(device), device);
  return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  namespace runtime = stalloc::runtime;
  const CUcontext context = Enabled() ? FromGreen(green) : nullptr;
  const int device = context != nullptr ? runtime::DeviceOfContext(context) : -1;
  if (device < 0) return Changed(Forward<Entry::k_cuGreenCtxDestroy>(green));
  // It may be the last to retain its device's primary context, whether or not anything was asked for in it.
  return ReleasePrimary(device, [&] {
    const runtime::EndingContext ending = runtime::NoteGreenContextEnds(context, PrimaryContext(device));
    const CUresult result = Forward<Entry::k_cuGreenCtxDestroy>(green);
    runtime::NoteContextEnded(ending, result == CUDA_SUCCESS);
    return result;
  });
}

// Another context that becomes current is seen by the requests themselves; that none is, by those that need to ask.
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) ContextLeft();
  return Forward<Entry::k_cuCtxSetCurrent>(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  ContextLeft();
  return Forward<Entry::k_cuCtxPopCurrent_v2>(context);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return ReleasePrimary(device, [&] { return Forward<Entry::k_cuDevicePrimaryCtxRelease>(device); });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return ReleasePrimary(device, [&] { return Forward<Entry::k_cuDevicePrimaryCtxRelease_v2>(device); });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return ResetPrimary(device, [&] { return Forward<Entry::k_cuDevicePrimaryCtxReset>(device); });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return ResetPrimary(device, [&] { return Forward<Entry::k_cuDevicePrimaryCtxReset_v2>(device); });
}
