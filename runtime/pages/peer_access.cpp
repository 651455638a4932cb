#include "runtime/pages/peer_access.h"

#include <algorithm>

namespace stalloc::runtime {

void PeerAccess::Update(CUdevice peer) {
  const auto index = static_cast<std::size_t>(peer);
  const bool enabled = opened_[index] || std::any_of(contexts_.begin(), contexts_.end(),
                                                     [&](const Enabled& entry) { return entry.peer == peer; });
  flags_[index].store(enabled ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : pool_[index]);
  named_.fetch_or(std::uint64_t{1} << peer);
  version_.fetch_add(1);  // last: who sees the new version sees the new flags
}

void PeerAccess::Enable(CUdevice peer, CUcontext context) {
  std::lock_guard lock(mutex_);
  contexts_.push_back({peer, context});
  opening_.fetch_and(~(std::uint64_t{1} << peer));  // it is the program's own now
  Update(peer);
}

void PeerAccess::Disable(CUdevice peer, CUcontext context) {
  std::lock_guard lock(mutex_);
  std::erase_if(contexts_,
                [&](const Enabled& entry) { return entry.peer == peer && entry.context == context && !entry.ending; });
  Update(peer);
}

void PeerAccess::SetPool(CUdevice peer, CUmemAccess_flags flags) {
  std::lock_guard lock(mutex_);
  pool_[static_cast<std::size_t>(peer)] = flags;
  Update(peer);
}

void PeerAccess::Open(CUdevice peer) {
  std::lock_guard lock(mutex_);
  bool& opened = opened_[static_cast<std::size_t>(peer)];
  // Before the flags say so. Who had access by another word keeps the use of it.
  if (!opened && FlagsOf(peer) != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) opening_.fetch_or(std::uint64_t{1} << peer);
  opened = true;
  Update(peer);
}

void PeerAccess::Opened(CUdevice peer, bool carried_out) {
  const std::uint64_t bit = std::uint64_t{1} << peer;
  if (carried_out)
    opening_.fetch_and(~bit);
  else
    refused_.fetch_or(bit);
}

void PeerAccess::ContextEnds(CUcontext context) noexcept {
  std::lock_guard lock(mutex_);
  for (Enabled& entry : contexts_)
    if (entry.context == context) entry.ending = true;
}

CUdevice PeerAccess::ContextEnded(CUcontext context, bool ended) noexcept {
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(contexts_, [&](const Enabled& entry) { return entry.context == context && entry.ending; });
  if (found == contexts_.end()) return -1;
  const CUdevice peer = found->peer;
  if (!ended) return found->ending = false, peer;
  contexts_.erase(found);
  Update(peer);
  return peer;
}

}  // namespace stalloc::runtime
