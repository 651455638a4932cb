// The part of DeviceMemory that the learner sees: requests put down as they come, and plans put in force.

#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

// Written field by field where it stays: see SeenLog::Add.
void DeviceMemory::Observe(Observation::Op op, CUdeviceptr address, const Block& block, StreamIndex stream,
                           std::uint64_t call_site, std::uint64_t freed_at) {
  SeenLog::Entry* seen = seen_.Add();
  if (seen == nullptr) return;
  seen->observation.op = op;
  seen->observation.block = block.number;
  seen->observation.size_bytes = block.size_bytes;
  seen->observation.call_site = call_site;
  seen->view = block.view;
  seen->begin = BeginOf(address, block.view);
  seen->stream = stream;
  if (freed_at == 0) return;
  seen->fence.stream = stream;
  seen->fence.position = freed_at;
}

void DeviceMemory::SetObserving(bool on) {
  std::vector<SeenLog::Entry> room;  // what was in the log is freed without the lock
  if (on) SeenLog::MakeRoom(&room);
  std::lock_guard lock(mutex_);
  seen_.Set(on, &room);
}

void DeviceMemory::TakeSeen(std::vector<SeenLog::Entry>* seen, bool* lost) {
  SeenLog::MakeRoom(seen);
  std::lock_guard lock(mutex_);
  *lost = seen_.Take(seen);
}

BlockPlace DeviceMemory::PlaceOf(CUdeviceptr address, const Block& block) const {
  BlockPlace place;
  if (block.view == kNoView) {
    place.kind = BlockPlace::Kind::kRun;
    place.begin = BeginOf(address, kNoView);
    return place;
  }
  const ViewTable::View& view = (*views_)[block.view];
  place.kind = BlockPlace::Kind::kPages;
  place.view = block.view;
  place.begin = view.head;
  place.pages.assign(view.pages.begin(), view.pages.begin() + PagesUnder(view.head, block.granules));
  return place;
}

std::vector<DeviceMemory::LiveBlock> DeviceMemory::LiveBlocks() const {
  std::vector<LiveBlock> live;
  std::lock_guard lock(mutex_);
  live.reserve(blocks_.size() + deferred_.size());
  blocks_.ForEach([&](std::uint64_t key, const Block& block) {
    const CUdeviceptr address = key * kGranuleBytes;
    live.push_back({{address, block.size_bytes, block.number, 0}, PlaceOf(address, block), block.site});
  });
  return live;
}

std::optional<BlockPlace> DeviceMemory::PlaceOfBlock(CUdeviceptr address) const {
  std::lock_guard lock(mutex_);
  const Block* const block = blocks_.Find(Key(address));
  if (block == nullptr) return std::nullopt;
  return PlaceOf(address, *block);
}

std::vector<PageNumber> DeviceMemory::PagesOfView(ViewIndex view) const {
  std::lock_guard lock(mutex_);
  return (*views_)[view].pages;
}

std::vector<Run> DeviceMemory::Holes() const {
  std::vector<Run> holes;
  std::lock_guard lock(mutex_);
  space_->VisitAll([&](Run run, Fence fence) {
    if (fence.stream == kAbsent) holes.push_back(run);
  });
  // What lies behind all that exists is no hole.
  if (!holes.empty() && holes.back().end == space_->size()) holes.pop_back();
  return holes;
}

// What is planned in pages needs a view. Those whose pages exist are mapped now, so that no request has to wait for it.
// Returns false if one could not be.
bool DeviceMemory::MapViews(PlanInForce* plan) {
  for (BlockPlace& slot : plan->slots) {
    if (slot.kind != BlockPlace::Kind::kPages) continue;
    std::optional<std::size_t> offset;
    ViewIndex view = kNoView;
    {
      std::lock_guard lock(mutex_);
      slot.view = views_->FindExact(slot.pages, slot.begin);
      if (slot.view != kNoView) {
        (*views_)[slot.view].pinned = true;
        continue;
      }
      // Where pages do not exist yet, or may be about to go, the view is mapped when the slot is first taken.
      const auto exists = [&](PageNumber page) { return pages_.Exists(page); };
      if (giving_back_ != 0 || !std::ranges::all_of(slot.pages, exists)) continue;
      offset = views_->TakeAddresses(slot.pages.size());
      if (!offset) return false;
      // In use or not, its pages stay from here on: nothing behind a view that changes is given back.
      view = views_->Add(*offset, slot.pages, slot.begin);
      (*views_)[view].changing = true;
    }
    const bool mapped = pages_.MapView(*offset, slot.pages) == CUDA_SUCCESS;
    std::lock_guard lock(mutex_);
    if (!mapped) {
      views_->Drop(view);
      views_->ReturnAddresses(*offset);
      return false;
    }
    (*views_)[view].changing = false;
    (*views_)[view].pinned = true;
    slot.view = view;
  }
  return true;
}

// Under the lock. The views of the plan's slots, where there are any now; the others are mapped when they are first
// taken.
void DeviceMemory::FindViews(PlanInForce* plan) {
  for (BlockPlace& slot : plan->slots) {
    if (slot.kind != BlockPlace::Kind::kPages) continue;
    slot.view = views_->FindExact(slot.pages, slot.begin);
    if (slot.view != kNoView) (*views_)[slot.view].pinned = true;
  }
}

bool DeviceMemory::Install(std::shared_ptr<PlanInForce> plan, PlanFollower::When when) {
  std::uint64_t changes = 0;
  if (plan) {
    std::lock_guard lock(mutex_);
    changes = views_->changes();
  }
  if (plan && !MapViews(plan.get())) return false;
  {
    std::lock_guard lock(mutex_);
    // Nobody knew of this plan meanwhile: a trim may have dropped its views, another plan's end unpinned them.
    if (plan && views_->changes() != changes) FindViews(plan.get());
    // Slots go from one stream to another by the program's order or by waits: both name one free, not its neighbours'.
    if (plan && (multi_stream_ || !plan->order.empty())) space_->RememberFrees();
    plans_->Install(std::move(plan), when);
  }
  FreeRetiredPlans();
  return true;
}

void DeviceMemory::FreeRetiredPlans() {
  PlanFollower::Plans retired;  // freed without the lock
  retired.reserve(PlanFollower::kMostRetired);
  std::lock_guard lock(mutex_);
  plans_->TakeRetired(&retired);
}

bool DeviceMemory::awaiting_iteration() const {
  std::lock_guard lock(mutex_);
  return plans_->awaiting_iteration();
}

void DeviceMemory::StartFrom(PlanFollower::Plans plans) {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<PlanInForce>& plan : plans)
    if (!plan->order.empty()) space_->RememberFrees();  // see Install
  plans_->StartFrom(std::move(plans));
}

std::optional<PlanFollower::Choice> DeviceMemory::choice() const {
  std::lock_guard lock(mutex_);
  return plans_->choice();
}

void DeviceMemory::EndChoice() noexcept {
  std::lock_guard lock(mutex_);
  plans_->EndChoice();
}

std::optional<PlanFollower::Scaled> DeviceMemory::ScaledPlan() const {
  std::lock_guard lock(mutex_);
  return plans_->ScaledPlan();
}

std::optional<PlanFollower::Scaled> DeviceMemory::TakeOutgrown() {
  std::lock_guard lock(mutex_);
  return plans_->TakeOutgrown();
}

void DeviceMemory::KeepPlanInForce() {
  std::lock_guard lock(mutex_);
  plans_->KeepPlanInForce();
}

bool DeviceMemory::sorting() const {
  std::lock_guard lock(mutex_);
  return lifetime_rooms_.sorting();
}

PlanFollower::InForce DeviceMemory::in_force() const {
  std::lock_guard lock(mutex_);
  return plans_->in_force();
}

}  // namespace stalloc::runtime
