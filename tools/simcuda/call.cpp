#include "call.h"

#include <atomic>

namespace stalloc::simcuda {

ThreadState& ThreadState::Get(Machine& machine) {
  static std::atomic<std::uint64_t> last_id{0};
  thread_local constinit ThreadState state;
  if (state.id == 0) state.id = ++last_id;
  if (state.epoch != machine.epoch) {
    state.epoch = machine.epoch;
    state.depth = 0;
    state.capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  }
  return state;
}

Call::Call(EntryPoint entry)
    : machine(Machine::Get()), thread(ThreadState::Get(machine)), lock_(machine.mutex, std::defer_lock) {
  const unsigned checks = InfoOf(entry).checks;
  if (thread.on_host_function && checks != kNothing) {
    result_ = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  lock_.lock();
  context = thread.current();
  result_ = machine.ledger.Enter(entry);
  if (result_ == CUDA_SUCCESS) result_ = Check(checks);
}

CUresult Call::Check(unsigned checks) {
  if (checks == kNothing) return CUDA_SUCCESS;
  if (machine.deinitialised) return CUDA_ERROR_DEINITIALIZED;
  if (!machine.initialised || machine.forked) return CUDA_ERROR_NOT_INITIALIZED;
  if ((checks & kContext) == kContext) {
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if ((checks & kNotDestroyed) == kNotDestroyed && context != nullptr && !context->alive)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if ((checks & kSound) == kSound && context != nullptr && context->error != CUDA_SUCCESS) return context->error;
  if ((checks & kNotWhileCapturing) != 0) return CheckUnsafeCall(machine, thread);
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> Call::FindStream(CUstream handle, CUresult* error) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    if (context == nullptr || !context->alive) {
      *error = context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
      return nullptr;
    }
    return handle == CU_STREAM_PER_THREAD ? PerThreadStream(machine, *context, thread.id) : context->legacy;
  }
  std::shared_ptr<Stream> stream = machine.streams.Find(handle);
  if (stream == nullptr) *error = CUDA_ERROR_INVALID_HANDLE;
  return stream;
}

CUresult Submit(Call& call, Stream& stream, WorkPtr work) {
  if (stream.capture != nullptr) return CaptureWork(stream, std::move(work));
  if (stream.kind == Stream::Kind::kLegacy) {
    if (const CUresult error = CheckLegacyUse(*stream.context)) return error;
  }
  const WorkPtr queued = work;
  call.machine.scheduler.Queue(stream, std::move(work), queued->After());
  queued->Queued(stream);
  return CUDA_SUCCESS;
}

CUresult CheckHostWait(Call& call, Stream* stream) {
  if (stream == nullptr) return CheckLegacyUse(*call.context);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return stream->kind == Stream::Kind::kLegacy ? CheckLegacyUse(*stream->context) : CUDA_SUCCESS;
}

void TrimPools(Machine& machine, int device) {
  machine.pools.ForEach([&](Pool& pool) {
    if (pool.device() == device) pool.TrimToThreshold();
  });
}

}  // namespace stalloc::simcuda
