// What stream 0 means in the file that includes this. Files that define functions with a stream are compiled twice, the
// second time with CUDA_API_PER_THREAD_DEFAULT_STREAM.
#pragma once

#include "cuda_driver.h"

namespace stalloc::simcuda {
namespace {

inline CUstream StreamOrDefault(CUstream handle) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return handle == nullptr ? CU_STREAM_PER_THREAD : handle;
#else
  return handle;
#endif
}

}  // namespace
}  // namespace stalloc::simcuda
