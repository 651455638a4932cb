// Entry points of contexts.
#include "call.h"

namespace stalloc::simcuda {
namespace {

constexpr unsigned kApiVersion = 3020;

CUresult ResetPrimary(Call& call, int index) {
  Device* device = call.machine.FindDevice(index);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary->alive) CloseContext(call.machine, *device->primary);
  device->primary_references = 0;
  return CUDA_SUCCESS;
}

CUresult SetPrimaryFlags(Call& call, int index, unsigned flags) {
  Device* device = call.machine.FindDevice(index);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->primary_flags = device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CreateContext(Call& call, CUcontext* handle, unsigned flags, int index) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.machine.FindDevice(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (call.thread.depth == call.thread.stack.size()) return CUDA_ERROR_OUT_OF_MEMORY;
  auto context = std::make_shared<Context>();
  context->device = index;
  context->flags = flags;
  OpenContext(call.machine, *context);
  context->handle = call.machine.contexts.Add(context);
  call.machine.all_contexts.push_back(context);
  call.thread.stack[call.thread.depth++] = context.get();
  *handle = context->handle;
  return CUDA_SUCCESS;
}

// The context of a handle; a null handle is allowed and means none.
CUresult FindContext(Call& call, CUcontext handle, Context** context) {
  *context = handle == nullptr ? nullptr : call.machine.contexts.Find(handle).get();
  if (handle != nullptr && (*context == nullptr || !(*context)->alive)) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}

CUresult DestroyContext(Call& call, CUcontext handle) {
  Context* context = nullptr;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindContext(call, handle, &context)) return error;
  if (context->primary || context->memory_of != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CloseContext(call.machine, *context);
  call.machine.contexts.Remove(handle);
  if (call.thread.current() == context) --call.thread.depth;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult RetainPrimary(Call& call, CUcontext* context, int index) {
  Device* device = call.machine.FindDevice(index);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary->alive) {
    device->primary->flags = device->primary_flags;
    OpenContext(call.machine, *device->primary);
  }
  ++device->primary_references;
  *context = device->primary->handle;
  return CUDA_SUCCESS;
}

CUresult ReleasePrimary(Call& call, int index) {
  Device* device = call.machine.FindDevice(index);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_references == 0) CloseContext(call.machine, *device->primary);
  return CUDA_SUCCESS;
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice index) {
  return Enter(SIMCUDA_ENTRY(cuDevicePrimaryCtxRetain),
               [&](Call& call) { return RetainPrimary(call, context, index); });
}

#undef cuDevicePrimaryCtxRelease
SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice index) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxRelease, [&](Call& call) { return ReleasePrimary(call, index); });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice index) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxRelease_v2, [&](Call& call) { return ReleasePrimary(call, index); });
}

#undef cuDevicePrimaryCtxReset
SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice index) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxReset, [&](Call& call) { return ResetPrimary(call, index); });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice index) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxReset_v2, [&](Call& call) { return ResetPrimary(call, index); });
}

#undef cuDevicePrimaryCtxSetFlags
SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice index, unsigned flags) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxSetFlags,
               [&](Call& call) { return SetPrimaryFlags(call, index, flags); });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice index, unsigned flags) {
  return Enter(EntryPoint::k_cuDevicePrimaryCtxSetFlags_v2,
               [&](Call& call) { return SetPrimaryFlags(call, index, flags); });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice index, unsigned* flags, int* active) {
  return Enter(SIMCUDA_ENTRY(cuDevicePrimaryCtxGetState), [&](Call& call) {
    const Device* device = call.machine.FindDevice(index);
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *flags = device->primary_flags;
    *active = device->primary->alive;
    return CUDA_SUCCESS;
  });
}

#undef cuCtxCreate
SIMCUDA_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice index) {
  return Enter(EntryPoint::k_cuCtxCreate_v2, [&](Call& call) { return CreateContext(call, context, flags, index); });
}

SIMCUDA_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned flags, CUdevice index) {
  return Enter(EntryPoint::k_cuCtxCreate_v3, [&](Call& call) { return CreateContext(call, context, flags, index); });
}

SIMCUDA_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned flags, CUdevice index) {
  return Enter(EntryPoint::k_cuCtxCreate_v4, [&](Call& call) { return CreateContext(call, context, flags, index); });
}

#undef cuCtxDestroy
SIMCUDA_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  return Enter(EntryPoint::k_cuCtxDestroy, [&](Call& call) { return DestroyContext(call, context); });
}

SIMCUDA_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  return Enter(EntryPoint::k_cuCtxDestroy_v2, [&](Call& call) { return DestroyContext(call, context); });
}

SIMCUDA_EXPORT CUresult cuCtxPushCurrent(CUcontext handle) {
  return Enter(SIMCUDA_ENTRY(cuCtxPushCurrent), [&](Call& call) {
    Context* context = nullptr;
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = FindContext(call, handle, &context)) return error;
    if (call.thread.depth == call.thread.stack.size()) return CUDA_ERROR_OUT_OF_MEMORY;
    call.thread.stack[call.thread.depth++] = context;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxPopCurrent(CUcontext* handle) {
  return Enter(SIMCUDA_ENTRY(cuCtxPopCurrent), [&](Call& call) {
    if (call.thread.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle != nullptr) *handle = call.context == nullptr ? nullptr : call.context->handle;
    --call.thread.depth;
    return CUDA_SUCCESS;
  });
}

// Replaces the top of the stack; null takes it off.
SIMCUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  return Enter(SIMCUDA_ENTRY(cuCtxSetCurrent), [&](Call& call) {
    Context* context = nullptr;
    if (const CUresult error = FindContext(call, handle, &context)) return error;
    if (call.thread.depth > 0) --call.thread.depth;
    if (context != nullptr) call.thread.stack[call.thread.depth++] = context;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext* handle) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetCurrent), [&](Call& call) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *handle = call.context == nullptr ? nullptr : call.context->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetDevice), [&](Call& call) {
    if (call.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = call.context->device;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetId), [&](Call& call) {
    Context* context = call.context;
    if (handle != nullptr) {
      if (const CUresult error = FindContext(call, handle, &context)) return error;
    }
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetFlags), [&](Call& call) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = call.context->flags;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetApiVersion), [&](Call&) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = kApiVersion;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Enter(SIMCUDA_ENTRY(cuCtxGetStreamPriorityRange), [&](Call&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxSynchronize() {
  return Enter(SIMCUDA_ENTRY(cuCtxSynchronize), [&](Call& call) {
    if (const CUresult error = CheckHostWait(call, nullptr)) return error;
    if (const CUresult error = InvalidateCaptures(*call.context)) return error;
    call.machine.scheduler.WaitForContext(*call.context);
    TrimPools(call.machine, call.context->device);
    return call.context->error;
  });
}

SIMCUDA_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuCtxEnablePeerAccess), [&](Call& call) {
    Context* context = nullptr;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = FindContext(call, peer, &context)) return error;
    if (context == nullptr || context->device == call.context->device) return CUDA_ERROR_INVALID_CONTEXT;
    if (!call.machine.Connected(call.context->device, context->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return call.context->peers.insert(context->device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

SIMCUDA_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return Enter(SIMCUDA_ENTRY(cuCtxDisablePeerAccess), [&](Call& call) {
    Context* context = nullptr;
    if (const CUresult error = FindContext(call, peer, &context)) return error;
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return call.context->peers.erase(context->device) > 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

}  // namespace stalloc::simcuda
