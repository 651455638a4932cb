// UsedContexts: the contexts of a device in which its memory may be in use, and how to wait for all work in them.
//
// Nothing orders the work of one context behind that of another. Members are called under the device's lock; what must
// be asked of the driver is taken out first.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stalloc::runtime {

class UsedContexts {
 public:
  // The number of a context whose memory ends with it; kNoOwner: memory of the device's pool, which is no context's.
  using Owner = std::uint8_t;
  static constexpr Owner kNoOwner = 0;

  // `waits_in`: waiting in it waits for the context's work. The context itself, or of a green one its primary: a green
  // context can be current to one thread alone. May be told again, with a number. May throw std::bad_alloc.
  void Add(CUcontext context, CUcontext waits_in, Owner owner) {
    if (owner != kNoOwner) owners_.push_back({owner, waits_in});
    if (!Has(context)) used_.push_back({context, waits_in});
    Count();
  }
  // What is left of a green context's memory is its primary's.
  void Remove(CUcontext context) {
    std::erase_if(used_, [&](const Used& used) { return used.context == context; });
    std::erase_if(owners_, [&](const Owned& owned) { return owned.waits_in == context; });
    Count();
  }

  // False: whichever is current is the one, and a stream's handle says it all.
  bool several() const noexcept { return several_; }
  bool Has(CUcontext context) const noexcept {
    return std::ranges::find(used_, context, &Used::context) != used_.end();
  }
  // May any thread make it current?
  bool MayEnter(CUcontext context) const noexcept {
    const auto known = std::ranges::find(used_, context, &Used::context);
    return known != used_.end() && known->waits_in == context;
  }

  // Where to wait for the work of the context that memory of this number is of. nullptr: it is not known, or there is
  // one context alone.
  CUcontext ToWaitInFor(Owner owner) const noexcept {
    if (!several_) return nullptr;
    const auto known = std::ranges::find(owners_, owner, &Owned::owner);
    return known == owners_.end() ? nullptr : known->waits_in;
  }

  // Where to wait for all work that may use the memory; empty: in the current one.
  std::vector<CUcontext> ToWaitIn() const {
    std::vector<CUcontext> contexts;
    if (!several_) return contexts;
    for (const Used& used : used_)
      if (std::ranges::find(contexts, used.waits_in) == contexts.end()) contexts.push_back(used.waits_in);
    return contexts;
  }

 private:
  struct Used {
    CUcontext context;
    CUcontext waits_in;
  };
  struct Owned {
    Owner owner;
    CUcontext waits_in;
  };
  void Count() noexcept { several_ = used_.size() > 1 || (used_.size() == 1 && used_[0].context != used_[0].waits_in); }

  std::vector<Used> used_;
  std::vector<Owned> owners_;
  bool several_ = false;
};

}  // namespace stalloc::runtime
