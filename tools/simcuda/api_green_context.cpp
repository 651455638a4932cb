// Entry points of green contexts: contexts with streams of their own and a part of the device's processors, which here
// does the same work as the whole. Their memory is the primary context's, which each of them retains.
#include <algorithm>

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

// Multiprocessors are given away in whole clusters: of eight from compute capability 9 on, of two before.
unsigned SmUnit(const Card& card) { return card.major >= 9 ? 8 : 2; }

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

SIMCUDA_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* handle, CUgreenCtx green, unsigned flags, int priority) {
  return Enter(SIMCUDA_ENTRY(cuGreenCtxStreamCreate), [&](Call& call) {
    const std::shared_ptr<Context> context = FindGreen(call, green);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *handle = call.machine.streams.Add(NewStream(call.machine, *context, Stream::Kind::kNonBlocking, flags, priority));
    context->stream_handles.insert(*handle);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetDevResource(CUdevice index, CUdevResource* resource, CUdevResourceType type) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGetDevResource), [&](Call& call) {
    if (call.machine.FindDevice(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
    *resource = CUdevResource{};
    resource->type = type;
    resource->sm.smCount = static_cast<unsigned>(call.machine.card().multiprocessors);
    resource->sm.minSmPartitionSize = resource->sm.smCoscheduledAlignment = SmUnit(call.machine.card());
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count, const CUdevResource* whole,
                                                    CUdevResource* remaining, unsigned, unsigned least) {
  return Enter(SIMCUDA_ENTRY(cuDevSmResourceSplitByCount), [&](Call& call) {
    if (count == nullptr || whole == nullptr || whole->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
    const unsigned unit = SmUnit(call.machine.card());
    const unsigned size = std::max((least + unit - 1) / unit, 1u) * unit;
    const unsigned possible = whole->sm.smCount / size;
    if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    const unsigned made = groups == nullptr ? possible : std::min(*count, possible);
    for (unsigned i = 0; groups != nullptr && i < made; ++i) {
      groups[i] = *whole;
      groups[i].sm.smCount = size;
    }
    if (remaining != nullptr) {
      *remaining = *whole;
      remaining->sm.smCount = whole->sm.smCount - made * size;
    }
    *count = made;
    return CUDA_SUCCESS;
  });
}

// What a green context is made of makes no difference here.
SIMCUDA_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                                  unsigned count) {
  return Enter(SIMCUDA_ENTRY(cuDevResourceGenerateDesc), [&](Call& call) {
    if (description == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    *description = reinterpret_cast<CUdevResourceDesc>(call.machine.NextId());
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
