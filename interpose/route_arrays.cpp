// Copies between an array and another device's served memory, in one piece (in rows: route_rows.cpp).
//
// The array is the acting device's own, so there is no one place for the copy: the device is given access to the memory
// (at_owner.h). Where the hardware has none, the memory goes by way of the acting device's own. Any thread.
#include "at_owner.h"

// cuda.h declares the per-thread form only for itself.
extern "C" {
std::remove_pointer_t<PFN_cuMemcpyPeer_v7000_ptds> cuMemcpyPeer_ptds;
}

namespace stalloc::interpose {
namespace {

// Memory of the current device for the time of a copy.
class Passage {
 public:
  explicit Passage(std::size_t size_bytes) noexcept {
    if (STALLOC_CALL_DRIVER(cuMemAlloc, &address_, size_bytes) != CUDA_SUCCESS) address_ = 0;
  }
  ~Passage() {
    if (address_ != 0) STALLOC_CALL_DRIVER(cuMemFree, address_);  // after the copies
  }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  CUdeviceptr address() const noexcept { return address_; }

 private:
  CUdeviceptr address_ = 0;
};

CUresult CopyNamingContexts(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                            std::size_t size_bytes, Streams streams) noexcept {
  return streams == Streams::kPerThread
             ? STALLOC_CALL_DRIVER(cuMemcpyPeer_ptds, to, to_context, from, from_context, size_bytes)
             : STALLOC_CALL_DRIVER(cuMemcpyPeer, to, to_context, from, from_context, size_bytes);
}

CUcontext CurrentContext() noexcept {
  CUcontext current = nullptr;
  STALLOC_CALL_DRIVER(cuCtxGetCurrent, &current);
  return current;
}

// True if the acting device cannot be given access to the memory, whose owner's context is *owner then.
bool OutOfReach(CUdeviceptr memory, Streams streams, CUcontext* owner) noexcept {
  return SeveralDevices() && !OpenToActing(memory, Order(nullptr, streams)) && runtime::OwnerOf(memory, owner) >= 0;
}

template <Entry kEntry>
CUresult ToArray(CUarray array, std::size_t offset, CUdeviceptr memory, std::size_t size_bytes) noexcept {
  const Streams streams = PointOf(kEntry).streams;
  CUcontext owner = nullptr;
  if (OutOfReach(memory, streams, &owner)) {
    const Passage passage(size_bytes);
    if (passage.address() != 0) {
      const CUresult result =
          CopyNamingContexts(passage.address(), CurrentContext(), memory, owner, size_bytes, streams);
      return result == CUDA_SUCCESS ? Forward<kEntry>(array, offset, passage.address(), size_bytes) : result;
    }
  }
  return Forward<kEntry>(array, offset, memory, size_bytes);
}

template <Entry kEntry>
CUresult FromArray(CUdeviceptr memory, CUarray array, std::size_t offset, std::size_t size_bytes) noexcept {
  const Streams streams = PointOf(kEntry).streams;
  CUcontext owner = nullptr;
  if (OutOfReach(memory, streams, &owner)) {
    const Passage passage(size_bytes);
    if (passage.address() != 0) {
      const CUresult result = Forward<kEntry>(passage.address(), array, offset, size_bytes);
      if (result != CUDA_SUCCESS) return result;
      return CopyNamingContexts(memory, owner, passage.address(), CurrentContext(), size_bytes, streams);
    }
  }
  return Forward<kEntry>(memory, array, offset, size_bytes);
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuMemcpyDtoA_v2(CUarray array, std::size_t offset, CUdeviceptr memory, std::size_t size_bytes) {
  return ToArray<Entry::k_cuMemcpyDtoA_v2>(array, offset, memory, size_bytes);
}

CUresult cuMemcpyDtoA_v2_ptds(CUarray array, std::size_t offset, CUdeviceptr memory, std::size_t size_bytes) {
  return ToArray<Entry::k_cuMemcpyDtoA_v2_ptds>(array, offset, memory, size_bytes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr memory, CUarray array, std::size_t offset, std::size_t size_bytes) {
  return FromArray<Entry::k_cuMemcpyAtoD_v2>(memory, array, offset, size_bytes);
}

CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr memory, CUarray array, std::size_t offset, std::size_t size_bytes) {
  return FromArray<Entry::k_cuMemcpyAtoD_v2_ptds>(memory, array, offset, size_bytes);
}
