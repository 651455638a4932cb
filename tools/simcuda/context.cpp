#include "context.h"

#include "machine.h"

namespace stalloc::simcuda {

std::shared_ptr<Stream> NewStream(Machine& machine, Context& context, Stream::Kind kind, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->kind = kind;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = machine.NextId();
  if (kind != Stream::Kind::kLegacy) context.streams.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> PerThreadStream(Machine& machine, Context& context, std::uint64_t thread) {
  std::shared_ptr<Stream>& stream = context.per_thread[thread];
  if (stream == nullptr) stream = NewStream(machine, context, Stream::Kind::kBlocking, CU_STREAM_DEFAULT, 0);
  return stream;
}

void OpenContext(Machine& machine, Context& context) {
  context.alive = true;
  context.error = CUDA_SUCCESS;
  context.id = machine.NextId();
  context.legacy = NewStream(machine, context, Stream::Kind::kLegacy, CU_STREAM_DEFAULT, 0);
}

void CloseContext(Machine& machine, Context& context) {
  machine.scheduler.WaitForContext(context);
  for (const std::shared_ptr<Stream>& stream : context.streams) LeaveCapture(machine, *stream);
  for (const CUstream handle : context.stream_handles) machine.streams.Remove(handle);
  for (const CUevent handle : context.event_handles) machine.events.Remove(handle);
  context.stream_handles.clear();
  context.event_handles.clear();
  machine.blocks.ReleaseAll(context);
  ForgetCode(machine, context);
  context.per_thread.clear();
  context.streams.clear();
  context.peers.clear();
  context.alive = false;
}

}  // namespace stalloc::simcuda
