// UsedContexts: the contexts of a device in which its memory may be in use, and how to wait for all work in them.
//
// Nothing orders the work of one context behind that of another. Members are called under the device's lock; what must
// be asked of the driver is taken out first.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace stalloc::runtime {

class UsedContexts {
 public:
  // The number of a context whose memory ends with it; kNoOwner: memory of the device's pool, which is no context's.
  using Owner = std::uint8_t;
  static constexpr Owner kNoOwner = 0;

  // A context's handle comes back for another one, its life does not. kNoLife: it is not known here.
  using Life = std::uint64_t;
  static constexpr Life kNoLife = 0;

  // `waits_in`: waiting in it waits for the context's work. The context itself, or of a green one its primary: a green
  // context can be current to one thread alone. May be told again, with a number. May throw std::bad_alloc.
  void Add(CUcontext context, CUcontext waits_in, Owner owner) {
    if (owner != kNoOwner) owners_.push_back({owner, waits_in, Ending{0}});
    if (!Has(context)) used_.push_back({context, waits_in, ++last_life_, Ending{0}});
    Count();
  }

  // The context is about to end, by this number. It is waited in until Remove; and from then on, for the work that is
  // left of a green one, in its primary, to which what is left of its memory belongs.
  using Ending = std::uint64_t;
  void End(CUcontext context, Ending ending) noexcept {
    for (Owned& owned : owners_)
      if (owned.waits_in == context && owned.ending == Ending{0}) owned.ending = ending;
    if (Used* used = Find(context)) used->ending = ending;
    Count();
  }
  void Remove(Ending ending) noexcept {
    for (Used& used : used_) {
      const bool is_green = used.waits_in != used.context;
      if (used.ending == ending && is_green && !Has(used.waits_in))
        used = {used.waits_in, used.waits_in, ++last_life_, Ending{0}};
    }
    std::erase_if(used_, [&](const Used& used) { return used.ending == ending; });
    std::erase_if(owners_, [&](const Owned& owned) { return owned.ending == ending; });
    Count();
  }
  // The driver has not destroyed it.
  void Stays(Ending ending) noexcept {
    for (Used& used : used_)
      if (used.ending == ending) used.ending = Ending{0};
    for (Owned& owned : owners_)
      if (owned.ending == ending) owned.ending = Ending{0};
    Count();
  }

  // False: whichever is current is the one, and a stream's handle says it all.
  bool several() const noexcept { return several_; }
  // False of one that is ending.
  bool Has(CUcontext context) const noexcept { return LifeOf(context) != kNoLife; }
  Life LifeOf(CUcontext context) const noexcept {
    const Used* used = Find(context);
    return used == nullptr ? kNoLife : used->life;
  }
  // May any thread make it current?
  bool MayEnter(CUcontext context) const noexcept {
    const Used* used = Find(context);
    return used != nullptr && used->waits_in == context;
  }

  // Where to wait for the work of the context that memory of this number is of. nullptr: it is not known, or there is
  // one context alone.
  CUcontext ToWaitInFor(Owner owner) const noexcept {
    if (!several_) return nullptr;
    const auto known = std::ranges::find_if(
        owners_, [&](const Owned& owned) { return owned.owner == owner && owned.ending == Ending{0}; });
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
    Life life;
    Ending ending;  // 0: it is not
  };
  struct Owned {
    Owner owner;
    CUcontext waits_in;
    Ending ending;  // 0: it is not
  };
  const Used* Find(CUcontext context) const noexcept {
    const auto found = std::ranges::find_if(
        used_, [&](const Used& used) { return used.context == context && used.ending == Ending{0}; });
    return found == used_.end() ? nullptr : &*found;
  }
  Used* Find(CUcontext context) noexcept { return const_cast<Used*>(std::as_const(*this).Find(context)); }
  void Count() noexcept {
    several_ =
        used_.size() > 1 || (used_.size() == 1 && (used_[0].context != used_[0].waits_in || used_[0].ending != 0));
  }

  std::vector<Used> used_;
  std::vector<Owned> owners_;
  Life last_life_ = kNoLife;
  bool several_ = false;
};

}  // namespace stalloc::runtime
