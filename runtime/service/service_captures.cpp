// Captures in progress: counted, so that the serving path asks the driver only while there is one. They are known by
// the stream in which they began, for they end with it too, and with its context.
#include <algorithm>
#include <exception>
#include <mutex>
#include <vector>

#include "runtime/base/never_destroyed.h"
#include "runtime/base/thread_identity.h"
#include "runtime/device/device_memory.h"
#include "runtime/service/service.h"
#include "service/context_ends.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

struct Capture {
  CUstream stream;
  CUcontext context;
  std::uint64_t thread;  // whose default stream it is; 0: it is none
  bool ending = false;   // the stream is, or its context
};

struct Captures {
  std::mutex mutex;
  std::vector<Capture> in_progress;
};
Captures& All() {
  static constinit NeverDestroyed<Captures> all;
  return all.get();
}

// Throws std::bad_alloc.
Capture CaptureIn(const Process& process, CUstream stream) {
  CUcontext context = nullptr;
  if (process.driver.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) context = CurrentContext(process.driver);
  return {stream, context, stream == CU_STREAM_PER_THREAD ? ThisThread().number : 0};
}

// Under the lock.
template <typename It>
void End(It it_is) noexcept {
  const auto ended = std::erase_if(All().in_progress, it_is);
  DeviceMemory::captures_in_progress.fetch_sub(static_cast<int>(ended));
}

// Before the driver ends a stream or a context and after it: a handle that is used again meanwhile, by a thread that
// begins a capture on it, is not marked.
template <typename It>
void MarkEnding(It it_is) noexcept {
  const std::lock_guard lock(All().mutex);
  for (Capture& known : All().in_progress)
    if (it_is(known)) known.ending = true;
}

template <typename It>
void EndMarked(bool ended, It it_is) noexcept {
  const std::lock_guard lock(All().mutex);
  if (ended) return End([&](const Capture& known) { return known.ending && it_is(known); });
  for (Capture& known : All().in_progress)
    if (it_is(known)) known.ending = false;
}

}  // namespace

void NoteCaptureBegan(CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr) return;
  DeviceMemory::captures_in_progress.fetch_add(1);
  try {
    const Capture begun = CaptureIn(*process, stream);
    const std::lock_guard lock(All().mutex);
    All().in_progress.push_back(begun);
  } catch (const std::exception&) {  // it goes on for ever: nobody waits, and nothing that must not be reused is
  }
}

void NoteCaptureEnded(CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr || DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return;
  try {
    // Of a stream that is no more the driver is not asked: a handle that the program made says it all.
    const Capture over = IsDefaultStream(stream) ? CaptureIn(*process, stream) : Capture{stream, nullptr, 0};
    const std::lock_guard lock(All().mutex);
    End([&](const Capture& known) {
      return known.stream == over.stream && known.thread == over.thread &&
             (!IsDefaultStream(stream) || known.context == over.context);
    });
  } catch (const std::exception&) {  // as above
  }
}

void NoteCapturingStreamEnds(CUstream stream) noexcept {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) != 0)
    MarkEnding([&](const Capture& known) { return known.stream == stream; });
}

void NoteCapturingStreamEnded(CUstream stream, bool ended) noexcept {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) != 0)
    EndMarked(ended, [&](const Capture& known) { return known.stream == stream; });
}

void CapturesContextEnds(CUcontext context) noexcept {
  MarkEnding([&](const Capture& known) { return known.context == context; });
}

void CapturesContextEnded(CUcontext context, bool ended) noexcept {
  EndMarked(ended, [&](const Capture& known) { return known.context == context; });
}

}  // namespace stalloc::runtime
