// The part of the service that is told which other devices may access a device's memory, and lets them.
#include <exception>
#include <string>

#include "runtime/base/log.h"
#include "runtime/device/capture.h"
#include "runtime/service/service.h"
#include "service/context_ends.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

bool AreTwoDevices(int owner, int peer) noexcept {
  constexpr int kLimit = kMaxDevices;
  return owner >= 0 && owner < kLimit && peer >= 0 && peer < kLimit && owner != peer;
}

// Carries out on what is mapped already what has been said of `peer`. False, after a line, where the driver refuses.
bool ApplyAccess(Process& process, int owner, CUdevice peer) noexcept {
  DeviceService* service = process.devices[owner].load();
  if (service == nullptr) return true;
  const RelaxedCapture relaxed(process.driver);
  const CUresult result = service->memory().ApplyAccess(peer);
  if (result == CUDA_SUCCESS) return true;
  try {
    LogWarn("device " + std::to_string(peer) + " cannot reach all of the memory of device " + std::to_string(owner) +
            ": the driver says " + std::to_string(result) + " (STALLOC_DISABLE=1 leaves it to the driver)");
  } catch (const std::exception&) {  // the host is out of memory: the device's own fault will tell
  }
  return false;
}

}  // namespace

void PeersContextEnds(Process& process, CUcontext context) noexcept {
  for (PeerAccess& access : process.peers) access.ContextEnds(context);
}

void PeersContextEnded(Process& process, CUcontext context, bool ended) noexcept {
  for (int owner = 0; static_cast<std::size_t>(owner) < kMaxDevices; ++owner)
    for (CUdevice peer = 0; (peer = process.peers[owner].ContextEnded(context, ended)) >= 0;)
      if (ended) ApplyAccess(process, owner, peer);
}

void NotePeerAccess(int owner, int peer, CUcontext context, bool enabled) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, peer)) return;
  try {
    PeerAccess& access = process->peers[owner];
    enabled ? access.Enable(peer, context) : access.Disable(peer, context);
  } catch (const std::exception&) {  // the host is out of memory
    return;
  }
  ApplyAccess(*process, owner, peer);
}

void NotePoolAccess(int owner, int peer, CUmemAccess_flags flags) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, peer)) return;
  process->peers[owner].SetPool(peer, flags);
  ApplyAccess(*process, owner, peer);
}

bool HasAccess(int owner, int device) noexcept {
  Process* process = Serving();
  if (process == nullptr || owner < 0) return false;
  return owner == device || (AreTwoDevices(owner, device) && process->peers[owner].MayUse(device));
}

bool GiveAccess(int owner, int device) noexcept {
  Process* process = Serving();
  if (process == nullptr || !AreTwoDevices(owner, device)) return false;
  PeerAccess& access = process->peers[owner];
  if (access.Refused(device)) return false;
  access.Open(device);
  const bool carried_out = ApplyAccess(*process, owner, device);
  access.Opened(device, carried_out);
  return carried_out;
}

}  // namespace stalloc::runtime
