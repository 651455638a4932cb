// Is the program capturing a stream into a graph? A question to the driver that captures allow. Any thread.
#pragma once

#include "driver_call.h"

namespace stalloc::interpose {

inline bool Capturing(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return STALLOC_CALL_DRIVER(cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace stalloc::interpose
