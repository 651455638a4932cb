// Entry points that take a stream, except copies. Compiled twice: with CUDA_API_PER_THREAD_DEFAULT_STREAM cuda.h gives
// each of them its _ptsz name, and stream 0 is the per-thread one.
#include "call.h"
#include "per_thread_default_stream.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

CUresult AllocateFrom(Call& call, Stream& stream, const std::shared_ptr<Pool>& pool, std::size_t size_bytes,
                      CUdeviceptr* address) {
  if (stream.capture != nullptr)
    return CaptureAllocation(call.machine, stream, pool->device(), std::max<std::size_t>(size_bytes, 1), address);
  const CUresult result = pool->Allocate(stream.shared_from_this(), size_bytes, address);
  if (result != CUDA_SUCCESS) return result;
  Block block;
  block.size_bytes = size_bytes;
  block.kind = Block::Kind::kPool;
  block.device = pool->device();
  block.pool = pool;
  call.machine.blocks.Add(*address, std::move(block));
  return CUDA_SUCCESS;
}

CUresult FreeInOrder(Call& call, Stream& stream, CUdeviceptr address) {
  Machine& machine = call.machine;
  Block* block = machine.blocks.FindLive(address);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream.capture != nullptr) {
    if (block->kind != Block::Kind::kGraph) return CUDA_ERROR_INVALID_VALUE;
    GraphNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    node.memory = address;
    return CaptureNode(stream, std::move(node));
  }
  switch (block->kind) {
    case Block::Kind::kMalloc:
      block->freed = true;
      machine.scheduler.Queue(stream, std::make_shared<ReleaseBlock>(address));
      break;
    case Block::Kind::kPool: {
      const std::shared_ptr<Pool> pool = block->pool;
      pool->Free(address, block->size_bytes, stream.Here());
      machine.blocks.Remove(address);
      break;
    }
    case Block::Kind::kOpened:
      return CUDA_ERROR_INVALID_VALUE;
    case Block::Kind::kGraph: {
      const auto live = machine.live_graph_memory.find(address);
      if (live == machine.live_graph_memory.end()) return CUDA_ERROR_INVALID_VALUE;
      machine.scheduler.Queue(stream, std::make_shared<ReleaseGraphMemory>(std::move(live->second)));
      machine.live_graph_memory.erase(live);
      break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Record(Call& call, Stream& stream, CUevent handle, bool external) {
  const std::shared_ptr<Event> event = call.machine.events.Find(handle);
  if (event == nullptr || event->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
  if (external && stream.capture != nullptr) return CaptureWork(stream, std::make_shared<RecordEvent>(event));
  auto record = std::make_shared<EventRecord>();
  if (stream.capture != nullptr) {
    if (stream.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    record->capture = stream.capture;
    record->capture_nodes = stream.capture_tail;
  } else {
    if (const CUresult error = Submit(call, stream, std::make_shared<RecordTime>(record))) return error;
    record->fence = stream.Here();
    if ((event->flags & CU_EVENT_INTERPROCESS) != 0) call.machine.scheduler.Wait(record->fence);
  }
  event->record = std::move(record);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size_bytes, CUstream handle) {
  if (address != nullptr) *address = 0;
  return EnterStream(SIMCUDA_ENTRY(cuMemAllocAsync), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size_bytes == 0) return CUDA_SUCCESS;
    return AllocateFrom(call, stream, call.machine.FindDevice(stream.context->device)->current_pool, size_bytes,
                        address);
  });
}

SIMCUDA_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t size_bytes, CUmemoryPool pool_handle,
                                                CUstream handle) {
  if (address != nullptr) *address = 0;
  return EnterStream(SIMCUDA_ENTRY(cuMemAllocFromPoolAsync), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    const std::shared_ptr<Pool> pool = call.machine.pools.Find(pool_handle);
    if (address == nullptr || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (size_bytes == 0) return CUDA_SUCCESS;
    return AllocateFrom(call, stream, pool, size_bytes, address);
  });
}

// Whichever call the block came from.
SIMCUDA_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuMemFreeAsync), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    return address == 0 ? CUDA_SUCCESS : FreeInOrder(call, stream, address);
  });
}

SIMCUDA_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return EnterStream(SIMCUDA_ENTRY(cuLaunchHostFunc), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Submit(call, stream, std::make_shared<HostFunction>(function, argument));
  });
}

SIMCUDA_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamSynchronize), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (const CUresult error = CheckHostWait(call, &stream)) return error;
    if (const CUresult error = CheckUnsafeCall(call.machine, call.thread)) return error;
    call.machine.scheduler.WaitForStream(stream);
    TrimPools(call.machine, stream.context->device);
    return stream.context->error;
  });
}

SIMCUDA_EXPORT CUresult cuStreamQuery(CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamQuery), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (const CUresult error = CheckHostWait(call, &stream)) return error;
    if (const CUresult error = CheckUnsafeCall(call.machine, call.thread)) return error;
    const bool done = call.machine.scheduler.PollStream(stream);
    if (stream.context->error != CUDA_SUCCESS) return stream.context->error;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

SIMCUDA_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamWaitEvent), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    const std::shared_ptr<Event> event = call.machine.events.Find(event_handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~CU_EVENT_WAIT_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (event->record == nullptr) return CUDA_SUCCESS;
    if (stream.capture != nullptr || event->record->capture != nullptr)
      return CaptureWait(stream, event, (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
    if (stream.kind == Stream::Kind::kLegacy) {
      if (const CUresult error = CheckLegacyUse(*stream.context)) return error;
    }
    call.machine.scheduler.Queue(stream, nullptr, {event->record->fence});
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuEventRecord), StreamOrDefault(handle),
                     [&](Call& call, Stream& stream) { return Record(call, stream, event, false); });
}

SIMCUDA_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  return EnterStream(SIMCUDA_ENTRY(cuEventRecordWithFlags), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if ((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    return Record(call, stream, event, (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
  });
}

SIMCUDA_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetCtx), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = stream.context->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetId), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetFlags), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetPriority), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamGetDevice), StreamOrDefault(handle), [&](Call&, Stream& stream) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = stream.context->device;
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
