// Green contexts: which primary context's memory each of them uses. CUDA says so of a stream only, and there
// since 13.0; it is known from their making, which may come before anything is served. Any thread.
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "served_process.h"

namespace stalloc::runtime {
namespace {

struct GreenContexts {
  std::mutex mutex;
  std::vector<std::pair<CUcontext, CUcontext>> primary_of;
};
GreenContexts& Green() {
  static GreenContexts& green = *new GreenContexts;
  return green;
}

}  // namespace

CUcontext MemoryContextOf(CUcontext context) noexcept {
  const std::lock_guard lock(Green().mutex);
  for (const auto& [green, primary] : Green().primary_of)
    if (green == context) return primary;
  return context;
}

void NoteGreenContext(CUcontext context, CUcontext primary) noexcept {
  if (context == nullptr || primary == nullptr) return;
  try {
    const std::lock_guard lock(Green().mutex);
    Green().primary_of.emplace_back(context, primary);
  } catch (const std::exception&) {  // it is taken for an ordinary one
  }
}

void ForgetGreenContext(CUcontext context) noexcept {
  const std::lock_guard lock(Green().mutex);
  std::erase_if(Green().primary_of, [&](const auto& pair) { return pair.first == context; });
}

}  // namespace stalloc::runtime
