// Of a green context it is known which primary context's memory it uses. CUDA says so of a stream only, and there since
// 13.0.
#include "service/living_contexts.h"

#include <exception>
#include <mutex>

#include "runtime/base/never_destroyed.h"
#include "runtime/service/service.h"
#include "service/context_ends.h"
#include "service/served_process.h"

namespace stalloc::runtime {

constinit std::atomic<bool> g_several_contexts{false};

namespace {

struct Living {
  CUcontext context;
  CUcontext memory_of;  // itself, or of a green context the primary
  CUdevice device;
  bool ending = false;
};

struct Contexts {
  std::mutex mutex;
  std::vector<Living> living;
};
Contexts& All() {
  static constinit NeverDestroyed<Contexts> all;
  return all.get();
}

void Add(const Living& made) noexcept {
  try {
    const std::lock_guard lock(All().mutex);
    for (const Living& known : All().living)
      if (known.context == made.context && !known.ending) return;
    All().living.push_back(made);
    if (All().living.size() > 1) g_several_contexts.store(true);
  } catch (const std::exception&) {  // it is known from its first request on
    g_several_contexts.store(true);
  }
}

}  // namespace

CUcontext MemoryContextOf(CUcontext context) noexcept {
  const std::lock_guard lock(All().mutex);
  for (const Living& known : All().living)
    if (known.context == context && !known.ending) return known.memory_of;
  return context;
}

CUdevice DeviceOfLivingContext(CUcontext context) noexcept {
  const std::lock_guard lock(All().mutex);
  for (const Living& known : All().living)
    if (known.context == context && !known.ending) return known.device;
  return -1;
}

std::vector<CUcontext> LivingContexts(CUdevice device) {
  std::vector<CUcontext> contexts;
  const std::lock_guard lock(All().mutex);
  for (const Living& known : All().living)
    if (known.device == device && known.memory_of == known.context && !known.ending) contexts.push_back(known.context);
  return contexts;
}

void LivingContextEnds(CUcontext context) noexcept {
  const std::lock_guard lock(All().mutex);
  for (Living& known : All().living)
    if (known.context == context) known.ending = true;
}

void LivingContextEnded(CUcontext context, bool ended) noexcept {
  const std::lock_guard lock(All().mutex);
  const auto it_is = [&](const Living& known) { return known.context == context && known.ending; };
  if (ended) std::erase_if(All().living, it_is);
  for (Living& known : All().living)
    if (it_is(known)) known.ending = false;
}

void NoteContextMade(CUcontext context, CUdevice device) noexcept {
  if (context == nullptr) return;
  Add({context, context, device});
  DeviceService* service = OnDevice(Serving(), device);
  if (service == nullptr) return;
  try {
    service->memory().NoteContext(context, context);
  } catch (const std::exception&) {  // as above
  }
}

void NoteGreenContext(CUcontext context, CUcontext primary, CUdevice device) noexcept {
  if (context == nullptr || primary == nullptr) return;
  g_several_contexts.store(true);
  Add({context, primary, device});
}

}  // namespace stalloc::runtime
