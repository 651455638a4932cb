// Entry points that make and destroy streams, and the capture mode of threads.
#include "call.h"

namespace stalloc::simcuda {
namespace {

CUresult CreateStream(Call& call, CUstream* handle, unsigned flags, int priority) {
  if (handle == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto kind = (flags & CU_STREAM_NON_BLOCKING) != 0 ? Stream::Kind::kNonBlocking : Stream::Kind::kBlocking;
  *handle = call.machine.streams.Add(NewStream(call.machine, *call.context, kind, flags, priority));
  call.context->stream_handles.insert(*handle);
  return CUDA_SUCCESS;
}

// Work that is still queued executes; the handle is free for the next stream at once.
CUresult DestroyStream(Call& call, CUstream handle) {
  const std::shared_ptr<Stream> stream = call.machine.streams.Remove(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  LeaveCapture(call.machine, *stream);
  stream->context->stream_handles.erase(handle);
  stream->destroyed = true;
  if (stream->idle()) std::erase(stream->context->streams, stream);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuStreamCreate), [&](Call& call) { return CreateStream(call, handle, flags, 0); });
}

SIMCUDA_EXPORT CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  return Enter(SIMCUDA_ENTRY(cuStreamCreateWithPriority),
               [&](Call& call) { return CreateStream(call, handle, flags, priority); });
}

#undef cuStreamDestroy
SIMCUDA_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  return Enter(EntryPoint::k_cuStreamDestroy, [&](Call& call) { return DestroyStream(call, stream); });
}

SIMCUDA_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return Enter(EntryPoint::k_cuStreamDestroy_v2, [&](Call& call) { return DestroyStream(call, stream); });
}

SIMCUDA_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Enter(SIMCUDA_ENTRY(cuThreadExchangeStreamCaptureMode), [&](Call& call) {
    if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, call.thread.capture_mode);
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
