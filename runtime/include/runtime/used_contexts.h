// UsedContexts: the contexts of a device in which its memory may be in use, and how to wait for all work in them.
//
// Nothing orders the work of one context behind that of another. Members are called under the device's lock; what must
// be asked of the driver is taken out first.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <vector>

namespace stalloc::runtime {

class UsedContexts {
 public:
  // `waits_in`: waiting in it waits for the context's work. The context itself, or of a green one its primary: a green
  // context can be current to one thread alone. May throw std::bad_alloc.
  void Add(CUcontext context, CUcontext waits_in) {
    const auto known = std::ranges::find(used_, context, &Used::context);
    if (known == used_.end()) used_.push_back({context, waits_in});
    Count();
  }
  void Remove(CUcontext context) {
    std::erase_if(used_, [&](const Used& used) { return used.context == context; });
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
  void Count() noexcept { several_ = used_.size() > 1 || (used_.size() == 1 && used_[0].context != used_[0].waits_in); }

  std::vector<Used> used_;
  bool several_ = false;
};

}  // namespace stalloc::runtime
