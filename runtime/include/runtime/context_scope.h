// The driver's context of the calling thread, while the runtime makes calls of its own.
#pragma once

#include <cuda.h>

#include "runtime/driver_api.h"

namespace stalloc::runtime {

// Null: none is current, or the driver does not say.
inline CUcontext CurrentContext(const DriverApi& driver) noexcept {
  CUcontext current = nullptr;
  driver.cuCtxGetCurrent(&current);
  return current;
}

// Makes a context current where another one (or none) is.
class ContextScope {
 public:
  ContextScope(const DriverApi& driver, CUcontext wanted) noexcept
      : driver_(driver), pushed_(CurrentContext(driver) != wanted && driver.cuCtxPushCurrent(wanted) == CUDA_SUCCESS) {}
  ~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const DriverApi& driver_;
  const bool pushed_;
};

// The same for a request that seldom has anything to ask the driver: entered before the first call, if there is one.
class ContextOnDemand {
 public:
  // `wanted` is made current unless `good_too` is.
  ContextOnDemand(const DriverApi& driver, CUcontext wanted, CUcontext good_too) noexcept
      : driver_(driver), wanted_(wanted), good_too_(good_too) {}
  ~ContextOnDemand() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  ContextOnDemand(const ContextOnDemand&) = delete;
  ContextOnDemand& operator=(const ContextOnDemand&) = delete;

  void Enter() noexcept {
    if (entered_) return;
    entered_ = true;
    const CUcontext current = CurrentContext(driver_);
    pushed_ = current != good_too_ && current != wanted_ && driver_.cuCtxPushCurrent(wanted_) == CUDA_SUCCESS;
  }

 private:
  const DriverApi& driver_;
  const CUcontext wanted_;
  const CUcontext good_too_;
  bool entered_ = false;
  bool pushed_ = false;
};

}  // namespace stalloc::runtime
