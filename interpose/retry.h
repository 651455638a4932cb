// WithRetry: a driver call that takes device memory, tried once more after idle memory has been given back.
#pragma once

#include "pools.h"
#include "process_life.h"
#include "runtime/service.h"

namespace stalloc::interpose {

// `call` returns CUresult. `device` is where the memory is wanted; -1: on the current context's device.
template <typename Call>
CUresult WithRetry(Call call, int device = -1) noexcept {
  const CUresult result = call();
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !ServingAlready()) [[likely]]
    return result;
  if (device < 0) device = CurrentDevice();
  return device >= 0 && runtime::ReleaseForRetry(device) ? call() : result;
}

}  // namespace stalloc::interpose
