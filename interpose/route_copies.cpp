// Copies that do not say what their ends are, or whose: between two devices, within one, with the host.
//
// From cuMemAlloc memory to cuMemAlloc memory the driver copies whether or not peer access is enabled, by way of the
// host where it must. Of mapped memory, as served memory is, it does so only where the call names the devices'
// contexts: PyTorch chooses between the two calls in the same way for its expandable segments. So a copy whose ends lie
// on two devices, and at least one of them in served memory, goes on as the call that names them. One that concerns the
// memory of one device only, and not the one that acts, is made there (at_owner.h). Any thread; costs a few loads in a
// process that sees one device.
#include "at_owner.h"
#include "capturing.h"

namespace stalloc::interpose {
namespace {

struct End {
  // What is managed can be reached from anywhere, as the host's memory can.
  enum class Kind { kHost, kDevice, kMapped } kind = Kind::kHost;  // kMapped: by the program itself, so no context's
  int device = -1;
  CUcontext context = nullptr;
  bool served = false;
};

End EndAt(CUdeviceptr address) noexcept {
  End end;
  end.device = runtime::OwnerOf(address, &end.context);
  end.served = end.device >= 0;
  if (end.served) end.kind = End::Kind::kDevice;
  return end;
}

// Of memory that is not served.
End DriversEnd(CUdeviceptr address) noexcept {
  unsigned int type = 0, managed = 0;
  End end;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* values[] = {&type, &managed, &end.device, &end.context};
  if (Forward<Entry::k_cuPointerGetAttributes>(4u, attributes, values, address) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE || managed != 0) {
    return {};
  }
  end.kind = end.context == nullptr ? End::Kind::kMapped : End::Kind::kDevice;
  return end;
}

// `peer(to, from)` is the copy that names the devices by these contexts, `call(stream)` the asynchronous form of the
// program's own, which `forward()` is. A copy with the host is waited for if `waits_for_host`.
template <typename Peer, typename Call, typename RealCall>
CUresult Copy(CUdeviceptr destination, CUdeviceptr source, CUstream stream, HostWaits waits_for_host, Peer peer,
              Call call, RealCall forward) noexcept {
  if (!SeveralDevices()) [[likely]]
    return forward();
  End to = EndAt(destination), from = EndAt(source);
  const CUdeviceptr served = to.served ? destination : source;
  if (!to.served && !from.served) return forward();
  if (!to.served) to = DriversEnd(destination);
  if (!from.served) from = DriversEnd(source);
  if (to.kind == End::Kind::kMapped || from.kind == End::Kind::kMapped) return forward();
  const bool with_host = to.kind == End::Kind::kHost || from.kind == End::Kind::kHost;
  if (!with_host && to.device != from.device) {
    // The calls that name contexts cannot be captured.
    if (Capturing(stream) && OpenToActing(destination, stream) && OpenToActing(source, stream)) return forward();
    return peer(to.context, from.context);
  }
  return CallAtOwner(served, stream, with_host ? waits_for_host : HostWaits::kNo, call, forward);
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

// `real` is the table's row, `peer` the function that names devices, `asynchronous` the form that takes a stream.
#define STALLOC_COPY(real, peer, asynchronous)                                                                     \
  CUresult real(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes) {                             \
    return Copy(                                                                                                   \
        destination, source, Order(nullptr, PointOf(Entry::k_##real).streams), HostWaits::kYes,                    \
        [&](CUcontext to, CUcontext from) {                                                                        \
          return STALLOC_CALL_DRIVER(peer, destination, to, source, from, size_bytes);                             \
        },                                                                                                         \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, destination, source, size_bytes, there); }, \
        [&] { return Forward<Entry::k_##real>(destination, source, size_bytes); });                                \
  }
#define STALLOC_COPY_ASYNC(real, peer, asynchronous)                                                               \
  CUresult real(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes, CUstream stream) {            \
    return Copy(                                                                                                   \
        destination, source, Order(stream, PointOf(Entry::k_##real).streams), HostWaits::kNo,                      \
        [&](CUcontext to, CUcontext from) {                                                                        \
          return STALLOC_CALL_DRIVER(peer, destination, to, source, from, size_bytes, stream);                     \
        },                                                                                                         \
        [&](CUstream there) { return STALLOC_CALL_DRIVER(asynchronous, destination, source, size_bytes, there); }, \
        [&] { return Forward<Entry::k_##real>(destination, source, size_bytes, stream); });                        \
  }

// cuda.h declares the per-thread forms only for itself.
extern "C" {
std::remove_pointer_t<PFN_cuMemcpyPeer_v7000_ptds> cuMemcpyPeer_ptds;
std::remove_pointer_t<PFN_cuMemcpyPeerAsync_v7000_ptsz> cuMemcpyPeerAsync_ptsz;
}

STALLOC_COPY(cuMemcpy, cuMemcpyPeer, cuMemcpyAsync)
STALLOC_COPY(cuMemcpy_ptds, cuMemcpyPeer_ptds, cuMemcpyAsync)
STALLOC_COPY(cuMemcpyDtoD_v2, cuMemcpyPeer, cuMemcpyDtoDAsync)
STALLOC_COPY(cuMemcpyDtoD_v2_ptds, cuMemcpyPeer_ptds, cuMemcpyDtoDAsync)
STALLOC_COPY_ASYNC(cuMemcpyAsync, cuMemcpyPeerAsync, cuMemcpyAsync)
STALLOC_COPY_ASYNC(cuMemcpyAsync_ptsz, cuMemcpyPeerAsync_ptsz, cuMemcpyAsync)
STALLOC_COPY_ASYNC(cuMemcpyDtoDAsync_v2, cuMemcpyPeerAsync, cuMemcpyDtoDAsync)
STALLOC_COPY_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyPeerAsync_ptsz, cuMemcpyDtoDAsync)
