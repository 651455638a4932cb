// The part of DeviceMemory that serves plans of iterations whose sizes scale: slots have room for the largest size
// seen, and what needs more is served online and noted, with its place, so that a plan with more room can be made of
// it.
#include <algorithm>

#include "runtime/device_memory.h"

namespace stalloc::runtime {

// Under the lock. Whether the slot has room for the request, which is noted if it has not.
bool DeviceMemory::HasRoom(std::size_t index, Asked* asked) noexcept {
  asked->scaled = static_cast<std::int32_t>(index);
  ScaledSlot& slot = plan_->scaled[index];
  if (asked->granules <= slot.room) [[likely]]
    return true;
  slot.outgrown_bytes = std::max(slot.outgrown_bytes, asked->size_bytes);
  plan_->outgrown_in = plan_->matcher.IterationsSeen();
  ++counters_.slot_outgrown;
  return false;
}

// Under the lock, which may have been released since the plan was asked.
void DeviceMemory::NoteServedOnline(const Asked& asked, CUdeviceptr address, ViewIndex view) noexcept {
  const auto index = static_cast<std::size_t>(asked.scaled);
  if (!plan_ || index >= plan_->scaled.size()) return;
  ScaledSlot& slot = plan_->scaled[index];
  slot.online_in = plan_->matcher.IterationsSeen();
  slot.online_view = view;
  slot.online_begin = BeginOf(address, view);
}

std::optional<DeviceMemory::Scaled> DeviceMemory::ScaledPlan() const {
  std::lock_guard lock(mutex_);
  if (!plan_ || !plan_->Scales()) return std::nullopt;
  return Scaled{plan_, plan_->scaled, plan_->outgrown_in, SettledBefore(next_number_, plan_->slots.size())};
}

std::optional<DeviceMemory::Scaled> DeviceMemory::TakeOutgrown() {
  {
    std::lock_guard lock(mutex_);
    if (!plan_ || plan_->outgrown_in == 0 || next_plan_) return std::nullopt;
    const std::uint64_t seen = plan_->matcher.IterationsSeen();
    // While the program still makes what it will keep, there is nothing yet to plan around.
    // Of an iteration that goes on not everything is known; but where nothing fits, each one outgrows the plan.
    if ((seen == plan_->outgrown_in && !plan_->unfitted) || plan_->persistent_left.load(std::memory_order_relaxed) != 0)
      return std::nullopt;
    if (seen < plan_->patience_until) return std::nullopt;
  }
  std::optional<Scaled> scaled = ScaledPlan();
  std::lock_guard lock(mutex_);
  if (!scaled || scaled->plan != plan_) return std::nullopt;
  ++plan_->renewals;
  plan_->BePatient(plan_->matcher.IterationsSeen());
  plan_->outgrown_in = 0;
  return scaled;
}

}  // namespace stalloc::runtime
