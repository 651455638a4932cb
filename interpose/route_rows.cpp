// Copies of rows and volumes of which another device's served memory is an end. With the host's memory or the same
// device's at the other end they are made where the memory is (at_owner.h). Between two devices, and between memory and
// arrays, which are one device's own, the devices that act are given access; where the hardware has none, a copy
// between two devices goes on as the call that names their contexts. Any thread.
#include "at_owner.h"

namespace stalloc::interpose {
namespace {

struct End {
  CUdeviceptr address = 0;  // 0: the host's by the call's own word, or an array
  CUcontext context = nullptr;
  int device = -1;  // that serves it
};

End EndAt(CUmemorytype type, CUdeviceptr address) noexcept {
  End end;
  if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return end;
  end.address = address;
  end.device = runtime::OwnerOf(address, &end.context);
  return end;
}

std::size_t DepthOf(const CUDA_MEMCPY2D&) noexcept { return 1; }
std::size_t DepthOf(const CUDA_MEMCPY3D& volume) noexcept { return volume.Depth; }

template <typename Description>
CUDA_MEMCPY3D_PEER NamingContexts(const Description& copy, const End& to, const End& from) noexcept {
  CUDA_MEMCPY3D_PEER named{};
  named.srcXInBytes = copy.srcXInBytes;
  named.srcY = copy.srcY;
  named.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  named.srcDevice = from.address;
  named.srcContext = from.context;
  named.srcPitch = copy.srcPitch;
  named.dstXInBytes = copy.dstXInBytes;
  named.dstY = copy.dstY;
  named.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  named.dstDevice = to.address;
  named.dstContext = to.context;
  named.dstPitch = copy.dstPitch;
  named.WidthInBytes = copy.WidthInBytes;
  named.Height = copy.Height;
  named.Depth = DepthOf(copy);
  if constexpr (std::is_same_v<Description, CUDA_MEMCPY3D>) {
    named.srcZ = copy.srcZ;
    named.srcHeight = copy.srcHeight;
    named.dstZ = copy.dstZ;
    named.dstHeight = copy.dstHeight;
  }
  return named;
}

// `call(stream)` is the call in its asynchronous form, `forward()` what the program asked for.
template <typename Description, typename Call, typename RealCall>
CUresult CopyRows(const Description* copy, CUstream stream, HostWaits waits, Call call, RealCall forward) noexcept {
  if (!SeveralDevices() || copy == nullptr) [[likely]]
    return forward();
  const End to = EndAt(copy->dstMemoryType, copy->dstDevice), from = EndAt(copy->srcMemoryType, copy->srcDevice);
  const bool two_devices = to.device >= 0 && from.device >= 0 && to.device != from.device;
  const bool with_array = copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (!two_devices && !with_array)
    return CallAtOwner(to.device >= 0 ? to.address : from.address, stream, waits, call, forward);
  const bool to_open = OpenToActing(to.address, stream), from_open = OpenToActing(from.address, stream);
  if (!two_devices || (to_open && from_open)) return forward();
  const CUDA_MEMCPY3D_PEER named = NamingContexts(*copy, to, from);
  return STALLOC_CALL_DRIVER(cuMemcpy3DPeerAsync, &named, stream);
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

// `asynchronous` is the form that takes a stream.
#define STALLOC_COPY_ROWS(real, asynchronous, Description)                              \
  CUresult real(const Description* copy) {                                              \
    return CopyRows(                                                                    \
        copy, Order(nullptr, PointOf(Entry::k_##real).streams), HostWaits::kYes,        \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, copy, there); }, \
        [&] { return Forward<Entry::k_##real>(copy); });                                \
  }
#define STALLOC_COPY_ROWS_ASYNC(real, asynchronous, Description)                        \
  CUresult real(const Description* copy, CUstream stream) {                             \
    return CopyRows(                                                                    \
        copy, Order(stream, PointOf(Entry::k_##real).streams), HostWaits::kNo,          \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, copy, there); }, \
        [&] { return Forward<Entry::k_##real>(copy, stream); });                        \
  }

STALLOC_COPY_ROWS(cuMemcpy2D_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2D_v2_ptds, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS(cuMemcpy3D_v2, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS(cuMemcpy3D_v2_ptds, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, CUDA_MEMCPY2D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, CUDA_MEMCPY3D)
STALLOC_COPY_ROWS_ASYNC(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, CUDA_MEMCPY3D)
