// Entry points of green contexts: contexts with streams of their own and a part of the device's processors, which here
// does the same work as the whole. Their memory is the primary context's, which each of them retains.
#include "call.h"

namespace stalloc::simcuda {
namespace {

CUresult CreateGreen(Call& call, CUgreenCtx* handle, int index, unsigned flags) {
  Device* device = call.machine.FindDevice(index);
  if (handle == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext primary = nullptr;
  if (const CUresult error = RetainPrimary(call, &primary, index)) return error;
  auto context = std::make_shared<Context>();
  context->device = index;
  context->memory_of = device->primary.get();
  OpenContext(call.machine, *context);
  context->handle = call.machine.contexts.Add(context);
  call.machine.all_contexts.push_back(context);
  *handle = reinterpret_cast<CUgreenCtx>(context->handle);
  return CUDA_SUCCESS;
}

std::shared_ptr<Context> FindGreen(Call& call, CUgreenCtx handle) {
  std::shared_ptr<Context> context = call.machine.contexts.Find(reinterpret_cast<CUcontext>(handle));
  return context != nullptr && context->alive && context->memory_of != nullptr ? context : nullptr;
}

CUresult DestroyGreen(Call& call, CUgreenCtx handle) {
  const std::shared_ptr<Context> context = FindGreen(call, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CloseContext(call.machine, *context);
  call.machine.contexts.Remove(context->handle);
  if (call.thread.current() == context.get()) --call.thread.depth;
  return ReleasePrimary(call, context->device);
}

}  // namespace

SIMCUDA_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc, CUdevice index, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuGreenCtxCreate), [&](Call& call) { return CreateGreen(call, context, index, flags); });
}

SIMCUDA_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  return Enter(SIMCUDA_ENTRY(cuGreenCtxDestroy), [&](Call& call) { return DestroyGreen(call, context); });
}

SIMCUDA_EXPORT CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
  return Enter(SIMCUDA_ENTRY(cuCtxFromGreenCtx), [&](Call& call) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Context> found = FindGreen(call, green);
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *context = found->handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
