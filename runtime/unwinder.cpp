// Why the unwinder is loaded and not linked: libunwind exports _Unwind_* too, and in the global scope these would take
// the place of libgcc's under every C++ exception of the program. RTLD_LOCAL keeps them apart; Debian's static
// libunwind is not position-independent. The same holds for libgcc_s, which the library must not need.
#include "unwinder.h"

#include <dlfcn.h>
#include <unwind.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>

namespace stalloc::runtime {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

constexpr const char kLibunwind[] = "libunwind.so.8";
// An installed copy lies in a folder of stalloc's own, where no other program finds it.
constexpr const char kInstalledLibunwind[] = "stalloc/libunwind.so.8";
constexpr const char kLibgcc[] = "libgcc_s.so.1";

void* LoadBeside(const char* name) noexcept {
  Dl_info here;
  if (::dladdr(reinterpret_cast<void*>(&FindLibunwind), &here) == 0 || here.dli_fname == nullptr) return nullptr;
  const char* slash = std::strrchr(here.dli_fname, '/');
  if (slash == nullptr) return nullptr;
  char path[PATH_MAX];
  const int length =
      std::snprintf(path, sizeof(path), "%.*s/%s", static_cast<int>(slash - here.dli_fname), here.dli_fname, name);
  if (length < 0 || length >= static_cast<int>(sizeof(path))) return nullptr;
  return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

using UnwindBacktrace = _Unwind_Reason_Code (*)(_Unwind_Trace_Fn, void*);
std::atomic<UnwindBacktrace> libgcc_backtrace{nullptr};

struct Walk {
  void** addresses;
  int count;
  int room;
};

// _Unwind_GetIP reads nothing but the context it is given, but it is a symbol of libgcc: taken from there as well.
using GetInstructionPointer = _Unwind_Ptr (*)(_Unwind_Context*);
std::atomic<GetInstructionPointer> libgcc_get_ip{nullptr};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  auto* walk = static_cast<Walk*>(data);
  if (walk->count == walk->room) return _URC_END_OF_STACK;
  const _Unwind_Ptr address = libgcc_get_ip.load(std::memory_order_relaxed)(context);
  if (address == 0) return _URC_END_OF_STACK;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (walk->count >= 0) walk->addresses[walk->count] = reinterpret_cast<void*>(address);
  ++walk->count;
  return _URC_NO_REASON;
}

int WalkByLibgcc(void** addresses, int count) {
  Walk walk{.addresses = addresses, .count = -1, .room = count};  // -1: this function's own frame comes first
  libgcc_backtrace.load(std::memory_order_relaxed)(&Step, &walk);
  return walk.count > 0 ? walk.count : 0;
}

template <typename Function>
Function SymbolOf(void* library, const char* name) {
  return library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

}  // namespace

LoadedUnwinder FindLibunwind() noexcept {
  // libunwind's cache of a thread ends with a mutex that is locked after ThreadSanitizer has let go of the thread.
  if (kThreadSanitizer) return {};
  void* library = LoadBeside(kInstalledLibunwind);
  if (library == nullptr) library = LoadBeside(kLibunwind);
  if (library == nullptr) library = ::dlopen(kLibunwind, RTLD_NOW | RTLD_LOCAL);
  const auto walk = SymbolOf<WalkFunction>(library, "unw_backtrace");
  return walk != nullptr ? LoadedUnwinder{Unwinder::kLibunwind, walk} : LoadedUnwinder{};
}

LoadedUnwinder FindLibgcc() noexcept {
  void* library = ::dlopen(kLibgcc, RTLD_NOW | RTLD_LOCAL);
  libgcc_backtrace = SymbolOf<UnwindBacktrace>(library, "_Unwind_Backtrace");
  libgcc_get_ip = SymbolOf<GetInstructionPointer>(library, "_Unwind_GetIP");
  if (libgcc_backtrace == nullptr || libgcc_get_ip == nullptr) return {};
  return {Unwinder::kLibgcc, &WalkByLibgcc};
}

}  // namespace stalloc::runtime
