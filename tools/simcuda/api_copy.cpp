// Entry points of copies and fills in one piece. Compiled twice: see per_thread_default_stream.h.
#include "call.h"
#include "copies.h"
#include "per_thread_default_stream.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

CUresult CopyNow(EntryPoint entry, CopyEnd destination, CopyEnd source, std::size_t size_bytes) {
  return EnterStream(entry, StreamOrDefault(nullptr), [&](Call& call, Stream& stream) {
    return QueueCopy(call, stream, destination, source, size_bytes, true);
  });
}

// A copy whose ends are each of a context's device, as the call says.
CUresult QueuePeerCopy(Call& call, Stream& stream, CUdeviceptr destination, CUcontext destination_context,
                       CUdeviceptr source, CUcontext source_context, std::size_t size_bytes) {
  const std::shared_ptr<Context> to = call.machine.contexts.Find(destination_context);
  const std::shared_ptr<Context> from = call.machine.contexts.Find(source_context);
  if (to == nullptr || from == nullptr || !to->alive || !from->alive) return CUDA_ERROR_INVALID_CONTEXT;
  CopyEnd destination_end = DeviceEnd(destination), source_end = DeviceEnd(source);
  destination_end.context = to.get();
  source_end.context = from.get();
  return QueueCopy(call, stream, destination_end, source_end, size_bytes, false);
}

CUresult CopyLater(EntryPoint entry, CUstream handle, CopyEnd destination, CopyEnd source, std::size_t size_bytes) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    return QueueCopy(call, stream, destination, source, size_bytes, false);
  });
}

CUresult FillOn(EntryPoint entry, CUstream handle, CUdeviceptr address, std::size_t size_bytes, std::uint32_t pattern,
                std::size_t unit_bytes) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    return QueueFill(call, stream, address, size_bytes, pattern, unit_bytes);
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpy), StreamOrDefault(nullptr), [&](Call& call, Stream& stream) {
    return QueueCopy(call, stream, UnifiedEnd(call.machine, destination), UnifiedEnd(call.machine, source), size_bytes,
                     true);
  });
}

SIMCUDA_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr destination, const void* source, std::size_t size_bytes) {
  return CopyNow(SIMCUDA_ENTRY(cuMemcpyHtoD), DeviceEnd(destination), HostEnd(source), size_bytes);
}

SIMCUDA_EXPORT CUresult cuMemcpyDtoH(void* destination, CUdeviceptr source, std::size_t size_bytes) {
  return CopyNow(SIMCUDA_ENTRY(cuMemcpyDtoH), HostEnd(destination), DeviceEnd(source), size_bytes);
}

SIMCUDA_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpyDtoD), StreamOrDefault(nullptr), [&](Call& call, Stream& stream) {
    return QueueCopy(call, stream, DeviceEnd(destination), DeviceEnd(source), size_bytes, false);
  });
}

SIMCUDA_EXPORT CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                     CUcontext source_context, std::size_t size_bytes) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpyPeer), StreamOrDefault(nullptr), [&](Call& call, Stream& stream) {
    return QueuePeerCopy(call, stream, destination, destination_context, source, source_context, size_bytes);
  });
}

SIMCUDA_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                                          CUcontext source_context, std::size_t size_bytes, CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpyPeerAsync), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (stream.capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return QueuePeerCopy(call, stream, destination, destination_context, source, source_context, size_bytes);
  });
}

SIMCUDA_EXPORT CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes,
                                      CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpyAsync), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    return QueueCopy(call, stream, UnifiedEnd(call.machine, destination), UnifiedEnd(call.machine, source), size_bytes,
                     false);
  });
}

SIMCUDA_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, std::size_t size_bytes,
                                          CUstream handle) {
  return CopyLater(SIMCUDA_ENTRY(cuMemcpyHtoDAsync), handle, DeviceEnd(destination), HostEnd(source), size_bytes);
}

SIMCUDA_EXPORT CUresult cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, std::size_t size_bytes,
                                          CUstream handle) {
  return CopyLater(SIMCUDA_ENTRY(cuMemcpyDtoHAsync), handle, HostEnd(destination), DeviceEnd(source), size_bytes);
}

SIMCUDA_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes,
                                          CUstream handle) {
  return CopyLater(SIMCUDA_ENTRY(cuMemcpyDtoDAsync), handle, DeviceEnd(destination), DeviceEnd(source), size_bytes);
}

SIMCUDA_EXPORT CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, std::size_t count) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD8), nullptr, address, count, value * 0x01010101u, 1);
}

SIMCUDA_EXPORT CUresult cuMemsetD16(CUdeviceptr address, unsigned short value, std::size_t count) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD16), nullptr, address, count * 2, value * 0x00010001u, 2);
}

SIMCUDA_EXPORT CUresult cuMemsetD32(CUdeviceptr address, unsigned value, std::size_t count) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD32), nullptr, address, count * 4, value, 4);
}

SIMCUDA_EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, std::size_t count, CUstream handle) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD8Async), handle, address, count, value * 0x01010101u, 1);
}

SIMCUDA_EXPORT CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, std::size_t count,
                                         CUstream handle) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD16Async), handle, address, count * 2, value * 0x00010001u, 2);
}

SIMCUDA_EXPORT CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, std::size_t count, CUstream handle) {
  return FillOn(SIMCUDA_ENTRY(cuMemsetD32Async), handle, address, count * 4, value, 4);
}

// In order, which the attributes allow; pageable memory is read while it is queued. Not on a default stream.
SIMCUDA_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources, std::size_t* sizes_bytes,
                                           std::size_t count, CUmemcpyAttributes*, std::size_t*, std::size_t,
                                           CUstream handle) {
  return EnterStream(SIMCUDA_ENTRY(cuMemcpyBatchAsync), handle, [&](Call& call, Stream& stream) {
    if (handle == nullptr || destinations == nullptr || sources == nullptr || sizes_bytes == nullptr || count == 0)
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (const CUresult error = QueueCopy(call, stream, UnifiedEnd(call.machine, destinations[i]),
                                           UnifiedEnd(call.machine, sources[i]), sizes_bytes[i], false))
        return error;
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
