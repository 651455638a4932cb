// The functions behind the wrappers: found in the program's own libcuda and libcudart when they are first needed.
//
// No CUDA function is called to find one, apart from the driver's own resolver. Any thread; no locks of its own (every
// store is of the same value, whoever gets there first); allocates nothing itself, though the loader may.
#pragma once

#include <atomic>
#include <cstddef>

#include "entry_points.h"

namespace stalloc::interpose {

inline constinit std::atomic<void*> real_pointers[kEntryCount] = {};

void* FindRealPointer(Entry entry) noexcept;

// The real function, or null.
template <Entry kEntry>
auto Real() noexcept {
  void* pointer = real_pointers[static_cast<std::size_t>(kEntry)].load(std::memory_order_acquire);
  if (pointer == nullptr) [[unlikely]]
    pointer = FindRealPointer(kEntry);
  return reinterpret_cast<typename EntryTraits<kEntry>::Function*>(pointer);
}

// What a call gets that came here although no library in the process has the real function: a program that found the
// name in the global scope without having loaded CUDA.
template <Library>
struct NotThere;
template <>
struct NotThere<Library::kDriver> {
  static constexpr CUresult result = CUDA_ERROR_NOT_INITIALIZED;
};
template <>
struct NotThere<Library::kRuntime> {
  static constexpr cudaError_t result = cudaErrorInitializationError;
};

template <Entry kEntry, typename... Arguments>
auto Forward(Arguments... arguments) noexcept {
  const auto real = Real<kEntry>();
  if (real == nullptr) [[unlikely]]
    return NotThere<EntryTraits<kEntry>::library>::result;
  return real(arguments...);
}

// The wrapper that stands for `pointer` if that is the real pointer of a driver or runtime entry point by whichever
// route it was had; otherwise `pointer`.
void* WrapperFor(void* pointer) noexcept;

// True if each kServe row of the driver has a real pointer; otherwise `*missing` names one that has none.
bool DriverCovered(const char** missing) noexcept;

}  // namespace stalloc::interpose
