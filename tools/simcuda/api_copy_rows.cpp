// Entry points of copies and fills of rows and volumes, and of arrays. Compiled twice: see per_thread_default_stream.h.
#include "call.h"
#include "copies.h"
#include "per_thread_default_stream.h"

namespace stalloc::simcuda {
namespace {

CUDA_MEMCPY3D VolumeOf(const CUDA_MEMCPY2D& rows) {
  CUDA_MEMCPY3D volume{};
  volume.srcXInBytes = rows.srcXInBytes;
  volume.srcY = rows.srcY;
  volume.srcMemoryType = rows.srcMemoryType;
  volume.srcHost = rows.srcHost;
  volume.srcDevice = rows.srcDevice;
  volume.srcArray = rows.srcArray;
  volume.srcPitch = rows.srcPitch;
  volume.dstXInBytes = rows.dstXInBytes;
  volume.dstY = rows.dstY;
  volume.dstMemoryType = rows.dstMemoryType;
  volume.dstHost = rows.dstHost;
  volume.dstDevice = rows.dstDevice;
  volume.dstArray = rows.dstArray;
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
  volume.srcArray = peer.srcArray;
  volume.srcPitch = peer.srcPitch;
  volume.srcHeight = peer.srcHeight;
  volume.dstXInBytes = peer.dstXInBytes;
  volume.dstY = peer.dstY;
  volume.dstZ = peer.dstZ;
  volume.dstMemoryType = peer.dstMemoryType;
  volume.dstHost = peer.dstHost;
  volume.dstDevice = peer.dstDevice;
  volume.dstArray = peer.dstArray;
  volume.dstPitch = peer.dstPitch;
  volume.dstHeight = peer.dstHeight;
  volume.WidthInBytes = peer.WidthInBytes;
  volume.Height = peer.Height;
  volume.Depth = peer.Depth;
  return volume;
}

// One end of a volume's copy.
struct VolumeEnd {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t x_bytes, y, z, pitch, height;

  // An array's rows are its own.
  CUresult FindArray(const Machine& machine) {
    if (type != CU_MEMORYTYPE_ARRAY) return CUDA_SUCCESS;
    const std::shared_ptr<Array> found = machine.arrays.Find(array);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    type = CU_MEMORYTYPE_DEVICE;
    device = found->begin;
    pitch = found->row_bytes;
    height = found->rows;
    return CUDA_SUCCESS;
  }

  CopyEnd Row(const Machine& machine, std::size_t row, std::size_t slice, const Context* context) const {
    const std::uint64_t offset = ((slice + z) * height + row + y) * pitch + x_bytes;
    CopyEnd end = type == CU_MEMORYTYPE_HOST     ? HostEnd(static_cast<const char*>(host) + offset)
                  : type == CU_MEMORYTYPE_DEVICE ? DeviceEnd(device + offset)
                                                 : UnifiedEnd(machine, device + offset);
    end.context = context;
    return end;
  }
};

// Row by row. The contexts are those that the call names for its ends, or null.
CUresult QueueVolume(Call& call, Stream& stream, const CUDA_MEMCPY3D& copy, const Context* destination_context,
                     const Context* source_context, bool wait) {
  VolumeEnd to{copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray, copy.dstXInBytes,
               copy.dstY,          copy.dstZ,    copy.dstPitch,  copy.dstHeight};
  VolumeEnd from{copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray, copy.srcXInBytes,
                 copy.srcY,          copy.srcZ,    copy.srcPitch,  copy.srcHeight};
  if (const CUresult error = to.FindArray(call.machine)) return error;
  if (const CUresult error = from.FindArray(call.machine)) return error;
  for (std::size_t z = 0; z < copy.Depth; ++z) {
    for (std::size_t y = 0; y < copy.Height; ++y) {
      const bool last = z + 1 == copy.Depth && y + 1 == copy.Height;
      if (const CUresult error =
              QueueCopy(call, stream, to.Row(call.machine, y, z, destination_context),
                        from.Row(call.machine, y, z, source_context), copy.WidthInBytes, wait && last))
        return error;
    }
  }
  return CUDA_SUCCESS;
}

// Between memory and a part of an array, whose rows follow each other.
CUresult CopyArray(EntryPoint entry, CUarray handle, std::size_t offset, CUdeviceptr address, std::size_t size_bytes,
                   bool to_array) {
  return EnterStream(entry, StreamOrDefault(nullptr), [&](Call& call, Stream& stream) {
    const std::shared_ptr<Array> array = call.machine.arrays.Find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (offset > array->size_bytes || size_bytes > array->size_bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    const CopyEnd inside = DeviceEnd(array->begin + offset), outside = DeviceEnd(address);
    return QueueCopy(call, stream, to_array ? inside : outside, to_array ? outside : inside, size_bytes, false);
  });
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

SIMCUDA_EXPORT CUresult cuMemcpyAtoD(CUdeviceptr destination, CUarray source, std::size_t source_offset,
                                     std::size_t size_bytes) {
  return CopyArray(SIMCUDA_ENTRY(cuMemcpyAtoD), source, source_offset, destination, size_bytes, false);
}

SIMCUDA_EXPORT CUresult cuMemcpyDtoA(CUarray destination, std::size_t destination_offset, CUdeviceptr source,
                                     std::size_t size_bytes) {
  return CopyArray(SIMCUDA_ENTRY(cuMemcpyDtoA), destination, destination_offset, source, size_bytes, true);
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
