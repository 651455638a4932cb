// The runtime's own driver calls beside a stream capture of the program's.
#pragma once

#include <cuda.h>

#include "runtime/base/driver_api.h"
#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

// Calls that the runtime makes while some thread captures must not end that capture.
class RelaxedCapture {
 public:
  // `even_unseen`: also where no capture is known of, which may have begun before anybody was told of captures.
  explicit RelaxedCapture(const DriverApi& driver, bool even_unseen = false)
      : driver_(driver), on_(even_unseen || DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) != 0) {
    if (on_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() {
    if (on_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& driver_;
  const bool on_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// True if `stream` captures, or may: nothing can be recorded on it then.
inline bool Captures(const DriverApi& driver, CUstream stream) {
  if (DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace stalloc::runtime
