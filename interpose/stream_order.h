// Which stream a call means: in the functions for the per-thread default stream, 0 is that stream.
#pragma once

#include "entry_points.h"

namespace stalloc::interpose {

inline CUstream Order(CUstream stream, Streams streams) noexcept {
  return stream == nullptr && streams == Streams::kPerThread ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace stalloc::interpose
