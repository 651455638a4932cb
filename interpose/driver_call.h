// STALLOC_CALL_DRIVER(name, arguments...): a call of a driver function that the hooks need for themselves and that is
// not in the table, typed by cuda.h, past every wrapper. CUDA_ERROR_NOT_INITIALIZED while no driver is loaded and
// CUDA_ERROR_NOT_FOUND if it has no such function.
//
// Any thread; no locks; looks each function up once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "entry_points.h"
#include "loader.h"

namespace stalloc::interpose {

template <std::size_t kLength>
struct FixedName {
  char text[kLength];
  constexpr FixedName(const char (&name)[kLength]) { std::copy_n(name, kLength, text); }
};

template <FixedName kName, typename Function, typename... Arguments>
CUresult CallDriver(Arguments... arguments) noexcept {
  static constinit std::atomic<void*> known{nullptr};
  void* function = known.load(std::memory_order_acquire);
  if (function == nullptr) [[unlikely]] {
    if (DriverLibrary() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    function = DriverSymbol(kName.text);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    known.store(function, std::memory_order_release);
  }
  return reinterpret_cast<Function*>(function)(arguments...);
}

// cuda.h maps some names to versioned ones with macros: the name is expanded before it becomes a string.
#define STALLOC_STRING_OF(name) #name
#define STALLOC_STRING(name) STALLOC_STRING_OF(name)
#define STALLOC_CALL_DRIVER(name, ...) \
  ::stalloc::interpose::CallDriver<STALLOC_STRING(name), decltype(::name)>(__VA_ARGS__)

}  // namespace stalloc::interpose
