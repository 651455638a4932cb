// WithRetry: a driver call that takes device memory, tried once more after idle memory has been given back. If it is
// refused then too, the allocator is told, which tells the user.
#pragma once

#include "pools.h"
#include "process_life.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {

// What a call asks for.
struct Wanted {
  Entry entry;
  std::size_t size_bytes = 0;  // 0: not known
  int device = -1;             // where the memory is wanted; -1: on the current context's device
};

// `call` returns CUresult.
template <typename Call>
CUresult WithRetry(Wanted wanted, Call call) noexcept {
  CUresult result = call();
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !ServingAlready()) [[likely]]
    return result;
  const int device = wanted.device >= 0 ? wanted.device : CurrentDevice();
  if (device < 0) return result;
  if (runtime::ReleaseForRetry(device)) result = call();
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    runtime::NoteOutOfMemory(device, wanted.size_bytes, PointOf(wanted.entry).name);
  return result;
}

}  // namespace stalloc::interpose
