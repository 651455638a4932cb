// RelaxedCapture: for calls that the hooks make on their own account.
//
// While any thread captures in the global mode, calls such as an allocation are forbidden in all threads and spoil the
// capture. Those made here have nothing to do with the program's work, so the calling thread steps out of that rule for
// as long as one of these lives.
#pragma once

#include "driver_call.h"

namespace stalloc::interpose {

class RelaxedCapture {
 public:
  RelaxedCapture() noexcept
      : exchanged_(STALLOC_CALL_DRIVER(cuThreadExchangeStreamCaptureMode, &mode_) == CUDA_SUCCESS) {}
  ~RelaxedCapture() {
    if (exchanged_) STALLOC_CALL_DRIVER(cuThreadExchangeStreamCaptureMode, &mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_;
};

}  // namespace stalloc::interpose
