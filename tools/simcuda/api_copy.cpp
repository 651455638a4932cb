// Entry points of copies and fills. Compiled twice: see per_thread_default_stream.h.
#include <utility>

#include "call.h"
#include "per_thread_default_stream.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

CopyEnd DeviceEnd(CUdeviceptr address) { return {address, true}; }
CopyEnd HostEnd(const void* address) { return {reinterpret_cast<std::uint64_t>(address), false}; }

// Which of the two an address of the unified address space is: what lies in no reservation is host memory.
CopyEnd UnifiedEnd(const Machine& machine, std::uint64_t address) {
  return {address, machine.space.IsReserved(address)};
}

// Mapped memory that the acting contexts, the current one and the stream's, may not access is refused at once. What is
// not mapped at all faults when the work executes.
bool IsRefused(const Call& call, const Stream& stream, CUdeviceptr address, bool write) {
  const Mapping* mapping = std::as_const(call.machine.space).Find(address);
  if (mapping == nullptr || mapping->kind != Mapping::Kind::kVirtualMemory) return false;
  const auto allowed = [&](const Context* acting) {
    return acting == nullptr || (((write ? mapping->writable : mapping->readable) >> acting->device) & 1) != 0;
  };
  return !allowed(stream.context) || !allowed(call.context);
}

// Pageable host memory is read when the copy is queued and written before the call returns; pinned memory and managed
// memory are touched when the copy executes.
CUresult QueueCopy(Call& call, Stream& stream, CopyEnd destination, CopyEnd source, std::size_t size_bytes, bool wait) {
  Machine& machine = call.machine;
  if (size_bytes == 0) return CUDA_SUCCESS;
  if (destination.address == 0 || source.address == 0) return CUDA_ERROR_INVALID_VALUE;
  // Managed memory has a device address that is a host's.
  for (CopyEnd* end : {&destination, &source}) {
    if (!end->on_device) continue;
    if (machine.FindHostRange(end->address) != nullptr)
      end->on_device = false;
    else if (!machine.space.IsReserved(end->address))
      return CUDA_ERROR_INVALID_VALUE;
    if (end->on_device && end->context == nullptr && IsRefused(call, stream, end->address, end == &destination))
      return CUDA_ERROR_INVALID_VALUE;
  }
  const auto pageable = [&](const CopyEnd& end) {
    return !end.on_device && machine.FindHostRange(end.address) == nullptr;
  };
  std::vector<std::uint8_t> snapshot;
  if (pageable(source)) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(source.address);
    snapshot.assign(bytes, bytes + size_bytes);
  }
  if (wait || pageable(destination)) {
    if (stream.capture != nullptr) return CheckHostWait(call, &stream);
    wait = true;
  }
  auto copy = std::make_shared<Copy>(destination, source, size_bytes, std::move(snapshot));
  if (const CUresult error = Submit(call, stream, std::move(copy))) return error;
  if (wait) machine.scheduler.Wait(stream.Here());
  return stream.context->error;
}

CUresult QueueFill(Call& call, Stream& stream, CUdeviceptr address, std::size_t size_bytes, std::uint32_t pattern,
                   std::size_t unit_bytes) {
  if (size_bytes == 0) return CUDA_SUCCESS;
  if (address % unit_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.machine.space.IsReserved(address) && call.machine.FindHostRange(address) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (IsRefused(call, stream, address, true)) return CUDA_ERROR_INVALID_VALUE;
  return Submit(call, stream, std::make_shared<Fill>(address, size_bytes, pattern));
}

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

CUDA_MEMCPY3D VolumeOf(const CUDA_MEMCPY2D& rows) {
  CUDA_MEMCPY3D volume{};
  volume.srcXInBytes = rows.srcXInBytes;
  volume.srcY = rows.srcY;
  volume.srcMemoryType = rows.srcMemoryType;
  volume.srcHost = rows.srcHost;
  volume.srcDevice = rows.srcDevice;
  volume.srcPitch = rows.srcPitch;
  volume.dstXInBytes = rows.dstXInBytes;
  volume.dstY = rows.dstY;
  volume.dstMemoryType = rows.dstMemoryType;
  volume.dstHost = rows.dstHost;
  volume.dstDevice = rows.dstDevice;
  volume.dstPitch = rows.dstPitch;
  volume.WidthInBytes = rows.WidthInBytes;
  volume.Height = rows.Height;
  volume.Depth = 1;
  return volume;
}

CUDA_MEMCPY3D VolumeOf(const CUDA_MEMCPY3D& volume) { return volume; }

// The two have the same members, apart from the contexts.
CUDA_MEMCPY3D VolumeOf(const CUDA_MEMCPY3D_PEER& peer) {
  CUDA_MEMCPY3D volume{};
  volume.srcXInBytes = peer.srcXInBytes;
  volume.srcY = peer.srcY;
  volume.srcZ = peer.srcZ;
  volume.srcMemoryType = peer.srcMemoryType;
  volume.srcHost = peer.srcHost;
  volume.srcDevice = peer.srcDevice;
  volume.srcPitch = peer.srcPitch;
  volume.srcHeight = peer.srcHeight;
  volume.dstXInBytes = peer.dstXInBytes;
  volume.dstY = peer.dstY;
  volume.dstZ = peer.dstZ;
  volume.dstMemoryType = peer.dstMemoryType;
  volume.dstHost = peer.dstHost;
  volume.dstDevice = peer.dstDevice;
  volume.dstPitch = peer.dstPitch;
  volume.dstHeight = peer.dstHeight;
  volume.WidthInBytes = peer.WidthInBytes;
  volume.Height = peer.Height;
  volume.Depth = peer.Depth;
  return volume;
}

// The end of a volume's copy from `offset` on. Not an array's: what is in arrays is not simulated.
CopyEnd VolumeEnd(const Machine& machine, CUmemorytype type, const void* host, CUdeviceptr device,
                  std::uint64_t offset) {
  if (type == CU_MEMORYTYPE_HOST) return HostEnd(static_cast<const char*>(host) + offset);
  return type == CU_MEMORYTYPE_DEVICE ? DeviceEnd(device + offset) : UnifiedEnd(machine, device + offset);
}

// Row by row. The contexts are those that the call names for its ends, or null.
CUresult QueueVolume(Call& call, Stream& stream, const CUDA_MEMCPY3D& copy, const Context* destination_context,
                     const Context* source_context, bool wait) {
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY || copy.dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (std::size_t z = 0; z < copy.Depth; ++z) {
    for (std::size_t y = 0; y < copy.Height; ++y) {
      CopyEnd to = VolumeEnd(call.machine, copy.dstMemoryType, copy.dstHost, copy.dstDevice,
                             ((z + copy.dstZ) * copy.dstHeight + y + copy.dstY) * copy.dstPitch + copy.dstXInBytes);
      CopyEnd from = VolumeEnd(call.machine, copy.srcMemoryType, copy.srcHost, copy.srcDevice,
                               ((z + copy.srcZ) * copy.srcHeight + y + copy.srcY) * copy.srcPitch + copy.srcXInBytes);
      to.context = destination_context;
      from.context = source_context;
      const bool last = z + 1 == copy.Depth && y + 1 == copy.Height;
      if (const CUresult error = QueueCopy(call, stream, to, from, copy.WidthInBytes, wait && last)) return error;
    }
  }
  return CUDA_SUCCESS;
}

template <typename Description>
CUresult CopyVolume(EntryPoint entry, CUstream handle, const Description* copy, bool wait) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return QueueVolume(call, stream, VolumeOf(*copy), nullptr, nullptr, wait);
  });
}

CUresult CopyPeerVolume(EntryPoint entry, CUstream handle, const CUDA_MEMCPY3D_PEER* copy) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Context> to = call.machine.contexts.Find(copy->dstContext);
    const std::shared_ptr<Context> from = call.machine.contexts.Find(copy->srcContext);
    if (to == nullptr || from == nullptr || !to->alive || !from->alive) return CUDA_ERROR_INVALID_CONTEXT;
    return QueueVolume(call, stream, VolumeOf(*copy), to.get(), from.get(), false);
  });
}

CUresult FillRows(EntryPoint entry, CUstream handle, CUdeviceptr address, std::size_t pitch, std::size_t width_bytes,
                  std::size_t height, std::uint32_t pattern, std::size_t unit_bytes) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (pitch % unit_bytes != 0 || (height > 1 && pitch < width_bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t y = 0; y < height; ++y) {
      if (const CUresult error = QueueFill(call, stream, address + y * pitch, width_bytes, pattern, unit_bytes))
        return error;
    }
    return CUDA_SUCCESS;
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

SIMCUDA_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  return CopyVolume(SIMCUDA_ENTRY(cuMemcpy2D), nullptr, copy, true);
}

SIMCUDA_EXPORT CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return CopyVolume(SIMCUDA_ENTRY(cuMemcpy2DUnaligned), nullptr, copy, true);
}

SIMCUDA_EXPORT CUresult cuMemcpy3D(const CUDA_MEMCPY3D* copy) {
  return CopyVolume(SIMCUDA_ENTRY(cuMemcpy3D), nullptr, copy, true);
}

SIMCUDA_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream handle) {
  return CopyVolume(SIMCUDA_ENTRY(cuMemcpy2DAsync), handle, copy, false);
}

SIMCUDA_EXPORT CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream handle) {
  return CopyVolume(SIMCUDA_ENTRY(cuMemcpy3DAsync), handle, copy, false);
}

SIMCUDA_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return CopyPeerVolume(SIMCUDA_ENTRY(cuMemcpy3DPeer), nullptr, copy);
}

SIMCUDA_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream handle) {
  return CopyPeerVolume(SIMCUDA_ENTRY(cuMemcpy3DPeerAsync), handle, copy);
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

SIMCUDA_EXPORT CUresult cuMemsetD2D8(CUdeviceptr address, std::size_t pitch, unsigned char value, std::size_t width,
                                     std::size_t height) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D8), nullptr, address, pitch, width, height, value * 0x01010101u, 1);
}

SIMCUDA_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr address, std::size_t pitch, unsigned char value,
                                          std::size_t width, std::size_t height, CUstream handle) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D8Async), handle, address, pitch, width, height, value * 0x01010101u, 1);
}

SIMCUDA_EXPORT CUresult cuMemsetD2D16(CUdeviceptr address, std::size_t pitch, unsigned short value, std::size_t width,
                                      std::size_t height) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D16), nullptr, address, pitch, width * 2, height, value * 0x00010001u, 2);
}

SIMCUDA_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr address, std::size_t pitch, unsigned short value,
                                           std::size_t width, std::size_t height, CUstream handle) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D16Async), handle, address, pitch, width * 2, height, value * 0x00010001u, 2);
}

SIMCUDA_EXPORT CUresult cuMemsetD2D32(CUdeviceptr address, std::size_t pitch, unsigned value, std::size_t width,
                                      std::size_t height) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D32), nullptr, address, pitch, width * 4, height, value, 4);
}

SIMCUDA_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr address, std::size_t pitch, unsigned value, std::size_t width,
                                           std::size_t height, CUstream handle) {
  return FillRows(SIMCUDA_ENTRY(cuMemsetD2D32Async), handle, address, pitch, width * 4, height, value, 4);
}

}  // namespace stalloc::simcuda
