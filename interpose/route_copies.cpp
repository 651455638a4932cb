// Copies between two devices that do not name them.
//
// From cuMemAlloc memory to cuMemAlloc memory the driver copies whether or not peer access is enabled, by way of the
// host where it must. Of mapped memory, as served memory is, it does so only where the call names the devices'
// contexts: PyTorch chooses between the two calls in the same way for its expandable segments. So a copy whose ends lie
// on two devices, and at least one of them in served memory, goes on as the call that names them. Any thread; costs one
// load in a process that is served on one device.
#include "driver_call.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service.h"

namespace stalloc::interpose {
namespace {

struct End {
  int device = -1;
  CUcontext context = nullptr;
};

// Of memory that is not served. Memory that is not a device's, and mapped memory, which is no context's, has none.
End DriversEnd(CUdeviceptr address) noexcept {
  unsigned int type = 0;
  int device = -1;
  CUcontext context = nullptr;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_CONTEXT};
  void* values[] = {&type, &device, &context};
  if (Forward<Entry::k_cuPointerGetAttributes>(3u, attributes, values, address) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE || context == nullptr) {
    return {};
  }
  return {device, context};
}

// True if the copy is to name the devices, by these contexts.
bool NamesDevices(CUdeviceptr destination, CUdeviceptr source, CUcontext* to, CUcontext* from) noexcept {
  if (!ServingAlready() || !runtime::ServesSeveralDevices()) [[likely]]
    return false;
  End destination_end, source_end;
  destination_end.device = runtime::OwnerOf(destination, &destination_end.context);
  source_end.device = runtime::OwnerOf(source, &source_end.context);
  if (destination_end.device < 0 && source_end.device < 0) return false;
  if (destination_end.device < 0) destination_end = DriversEnd(destination);
  if (source_end.device < 0) source_end = DriversEnd(source);
  if (destination_end.device < 0 || source_end.device < 0 || destination_end.device == source_end.device) return false;
  *to = destination_end.context;
  *from = source_end.context;
  return true;
}

template <typename Peer, typename RealCall>
CUresult Copy(CUdeviceptr destination, CUdeviceptr source, Peer peer, RealCall forward) noexcept {
  CUcontext to = nullptr, from = nullptr;
  return NamesDevices(destination, source, &to, &from) ? peer(to, from) : forward();
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

// `real` is the table's row, `peer` the function that names devices.
#define STALLOC_COPY(real, peer)                                                       \
  CUresult real(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes) { \
    return Copy(                                                                       \
        destination, source,                                                           \
        [&](CUcontext to, CUcontext from) {                                            \
          return STALLOC_CALL_DRIVER(peer, destination, to, source, from, size_bytes); \
        },                                                                             \
        [&] { return Forward<Entry::k_##real>(destination, source, size_bytes); });    \
  }
#define STALLOC_COPY_ASYNC(real, peer)                                                                  \
  CUresult real(CUdeviceptr destination, CUdeviceptr source, std::size_t size_bytes, CUstream stream) { \
    return Copy(                                                                                        \
        destination, source,                                                                            \
        [&](CUcontext to, CUcontext from) {                                                             \
          return STALLOC_CALL_DRIVER(peer, destination, to, source, from, size_bytes, stream);          \
        },                                                                                              \
        [&] { return Forward<Entry::k_##real>(destination, source, size_bytes, stream); });             \
  }

// cuda.h declares the per-thread forms only for itself.
extern "C" {
std::remove_pointer_t<PFN_cuMemcpyPeer_v7000_ptds> cuMemcpyPeer_ptds;
std::remove_pointer_t<PFN_cuMemcpyPeerAsync_v7000_ptsz> cuMemcpyPeerAsync_ptsz;
}

STALLOC_COPY(cuMemcpy, cuMemcpyPeer)
STALLOC_COPY(cuMemcpy_ptds, cuMemcpyPeer_ptds)
STALLOC_COPY(cuMemcpyDtoD_v2, cuMemcpyPeer)
STALLOC_COPY(cuMemcpyDtoD_v2_ptds, cuMemcpyPeer_ptds)
STALLOC_COPY_ASYNC(cuMemcpyAsync, cuMemcpyPeerAsync)
STALLOC_COPY_ASYNC(cuMemcpyAsync_ptsz, cuMemcpyPeerAsync_ptsz)
STALLOC_COPY_ASYNC(cuMemcpyDtoDAsync_v2, cuMemcpyPeerAsync)
STALLOC_COPY_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyPeerAsync_ptsz)
