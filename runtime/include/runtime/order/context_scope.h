// The driver's context of the calling thread, while the runtime makes calls of its own.
#pragma once

#include <cuda.h>

#include <optional>

#include "runtime/base/cancellation_off.h"
#include "runtime/base/driver_api.h"

namespace stalloc::runtime {

// Null: none is current, or the driver does not say.
inline CUcontext CurrentContext(const DriverApi& driver) noexcept {
  CUcontext current = nullptr;
  driver.cuCtxGetCurrent(&current);
  return current;
}

// What the driver says of a context that is no more: it does nothing.
inline bool HasEnded(CUresult result) noexcept {
  return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

// At most one context pushed, and popped at the end: what the scopes below have in common.
class PushedContext {
 public:
  explicit PushedContext(const DriverApi& driver) noexcept : driver_(driver) {}
  ~PushedContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  PushedContext(const PushedContext&) = delete;
  PushedContext& operator=(const PushedContext&) = delete;

  CUresult Push(CUcontext context) noexcept {
    const CUresult result = driver_.cuCtxPushCurrent(context);
    pushed_ = result == CUDA_SUCCESS;
    return result;
  }

 private:
  const DriverApi& driver_;
  bool pushed_ = false;
};

// Makes a context current where another one (or none) is. The thread is not cancelled meanwhile.
class ContextScope {
 public:
  ContextScope(const DriverApi& driver, CUcontext wanted) noexcept : pushed_(driver) {
    if (CurrentContext(driver) != wanted) result_ = pushed_.Push(wanted);
  }

  // CUDA_SUCCESS: it is current.
  CUresult result() const noexcept { return result_; }

 private:
  const CancellationOff no_cancellation_;
  PushedContext pushed_;
  CUresult result_ = CUDA_SUCCESS;
};

// Waits for all work of a context. CUDA_SUCCESS: none is left, as of one that has ended. Of a green context that is
// another thread's the driver says the same as of an ended one: it must be one that can be entered.
inline CUresult WaitIn(const DriverApi& driver, CUcontext context) noexcept {
  const ContextScope scope(driver, context);
  const CUresult result = scope.result() == CUDA_SUCCESS ? driver.cuCtxSynchronize() : scope.result();
  return HasEnded(result) ? CUDA_SUCCESS : result;
}

// A stream and where its handle means it.
struct NamedStream {
  CUstream handle = nullptr;
  CUcontext context = nullptr;  // nullptr: in whichever is current
  bool may_enter = true;        // this context; otherwise it has to be current already
  bool is_anothers = false;     // another thread's default stream, which has no name here
};

// Calls about a stream, and events for it, are made in its context. `names` false: it cannot be named here.
class StreamScope {
 public:
  StreamScope(const DriverApi& driver, const NamedStream& stream) noexcept : pushed_(driver) {
    if (stream.is_anothers) return;
    names_ = stream.context == nullptr || CurrentContext(driver) == stream.context;
    if (!names_ && stream.may_enter) names_ = pushed_.Push(stream.context) == CUDA_SUCCESS;
  }

  bool names() const noexcept { return names_; }

 private:
  PushedContext pushed_;
  bool names_ = false;
};

// ContextScope for a request that seldom has anything to ask the driver: entered before the first call, if there is
// one. From then on the thread is not cancelled, which it might be where the driver waits.
class ContextOnDemand {
 public:
  // `wanted` is made current unless `good_too` is.
  ContextOnDemand(const DriverApi& driver, CUcontext wanted, CUcontext good_too) noexcept
      : driver_(driver), pushed_(driver), wanted_(wanted), good_too_(good_too) {}

  void Enter() noexcept {
    if (entered_) return;
    entered_ = true;
    no_cancellation_.emplace();
    const CUcontext current = CurrentContext(driver_);
    const bool good = current != nullptr && (current == good_too_ || current == wanted_);
    if (!good) pushed_.Push(wanted_);
  }

 private:
  std::optional<CancellationOff> no_cancellation_;
  const DriverApi& driver_;
  PushedContext pushed_;
  const CUcontext wanted_;
  const CUcontext good_too_;
  bool entered_ = false;
};

}  // namespace stalloc::runtime
