// Access to another device's memory. The driver judges first and carries it out on its own memory; what it grants is
// then carried out on served memory, before the program goes on.
//
// Any thread. The allocator is started if it has not been yet: access is often enabled before anything is allocated.

#include "driver_call.h"
#include "pools.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {
namespace {

// The device of any context.
int DeviceOfContext(CUcontext context) noexcept {
  if (STALLOC_CALL_DRIVER(cuCtxPushCurrent, context) != CUDA_SUCCESS) return -1;
  const int device = CurrentDevice();
  CUcontext popped = nullptr;
  STALLOC_CALL_DRIVER(cuCtxPopCurrent, &popped);
  return device;
}

CUresult PeerAccess(CUresult result, CUcontext owner, bool enabled) noexcept {
  if (result != CUDA_SUCCESS || !Serving()) return result;
  CUcontext context = nullptr;
  if (STALLOC_CALL_DRIVER(cuCtxGetCurrent, &context) == CUDA_SUCCESS)
    runtime::NotePeerAccess(DeviceOfContext(owner), CurrentDevice(), context, enabled);
  return result;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return PeerAccess(Forward<Entry::k_cuCtxEnablePeerAccess>(peer, flags), peer, true);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return PeerAccess(Forward<Entry::k_cuCtxDisablePeerAccess>(peer), peer, false);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, std::size_t count) {
  const CUresult result = Forward<Entry::k_cuMemPoolSetAccess>(pool, access, count);
  const int owner = result == CUDA_SUCCESS && Serving() ? DeviceOfDefaultPool(pool) : -1;
  if (owner < 0) return result;
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      stalloc::runtime::NotePoolAccess(owner, access[i].location.id, access[i].flags);
  }
  return result;
}
