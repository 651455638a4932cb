#include "at_owner.h"

#include "capturing.h"
#include "relaxed_capture.h"

namespace stalloc::interpose {

std::optional<MemoryOwner> OwnerElsewhere(CUdeviceptr address, CUstream stream) noexcept {
  MemoryOwner owner;
  owner.device = runtime::OwnerOf(address, &owner.context);
  if (owner.device < 0) return std::nullopt;
  // Which of the two the driver goes by is not documented: the memory is to be in reach of both.
  for (const runtime::StreamOrder order : {runtime::StreamOrder(), runtime::StreamOrder(stream)})
    if (!runtime::HasAccess(owner.device, runtime::DeviceOf(order))) return owner;
  return std::nullopt;
}

bool OpenToActing(CUdeviceptr address, CUstream stream) noexcept {
  CUcontext context = nullptr;
  const int owner = runtime::OwnerOf(address, &context);
  if (owner < 0) return true;
  bool open = true;
  for (const runtime::StreamOrder order : {runtime::StreamOrder(), runtime::StreamOrder(stream)}) {
    const int device = runtime::DeviceOf(order);
    if (runtime::HasAccess(owner, device)) continue;
    int can = 0;
    open = open && device >= 0 && STALLOC_CALL_DRIVER(cuDeviceCanAccessPeer, &can, device, owner) == CUDA_SUCCESS &&
           can != 0 && runtime::GiveAccess(owner, device);
  }
  return open;
}

AtOwner::AtOwner(const MemoryOwner& owner, CUstream stream) noexcept : meant_(stream) {
  CUcontext acting = nullptr;
  if (STALLOC_CALL_DRIVER(cuStreamGetCtx, stream, &acting) != CUDA_SUCCESS || acting == nullptr) return;
  const RelaxedCapture relaxed;
  if (!Push(acting)) return;
  open_ = runtime::DeviceOf(stream) == owner.device || MakeStream(owner.context);
}

AtOwner::~AtOwner() {
  while (pushed_ > 0) Pop();
  // The driver keeps what work that is under way still needs.
  if (before_ != nullptr) STALLOC_CALL_DRIVER(cuEventDestroy_v2, before_);
  if (after_ != nullptr) STALLOC_CALL_DRIVER(cuEventDestroy_v2, after_);
  if (made_ != nullptr) STALLOC_CALL_DRIVER(cuStreamDestroy_v2, made_);
}

bool AtOwner::MakeStream(CUcontext owner) noexcept {
  return !Capturing(meant_) && STALLOC_CALL_DRIVER(cuEventCreate, &before_, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         STALLOC_CALL_DRIVER(cuEventRecord, before_, meant_) == CUDA_SUCCESS && Push(owner) &&
         STALLOC_CALL_DRIVER(cuEventCreate, &after_, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         STALLOC_CALL_DRIVER(cuStreamCreate, &made_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
         STALLOC_CALL_DRIVER(cuStreamWaitEvent, made_, before_, 0u) == CUDA_SUCCESS;
}

CUresult AtOwner::Finish(CUresult result, HostWaits waits) noexcept {
  if (result != CUDA_SUCCESS || made_ == nullptr) return result;
  if (waits == HostWaits::kNo && STALLOC_CALL_DRIVER(cuEventRecord, after_, made_) == CUDA_SUCCESS) {
    Pop();  // stream 0 is the acting context's again
    if (STALLOC_CALL_DRIVER(cuStreamWaitEvent, meant_, after_, 0u) == CUDA_SUCCESS) return CUDA_SUCCESS;
  }
  return STALLOC_CALL_DRIVER(cuStreamSynchronize, made_);
}

bool AtOwner::Push(CUcontext context) noexcept {
  if (STALLOC_CALL_DRIVER(cuCtxPushCurrent, context) != CUDA_SUCCESS) return false;
  ++pushed_;
  return true;
}

void AtOwner::Pop() noexcept {
  CUcontext popped = nullptr;
  STALLOC_CALL_DRIVER(cuCtxPopCurrent, &popped);
  --pushed_;
}

}  // namespace stalloc::interpose
