// Why the unwinder is loaded and not linked: libunwind exports _Unwind_* too, and in the global scope these would take
// the place of libgcc's under every C++ exception of the program. RTLD_LOCAL keeps them apart; Debian's static
// libunwind is not position-independent. The same holds for libgcc_s, which the library must not need.
#include "call_sites/unwinder.h"

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

// The interface of the C++ ABI, which both libraries have. The last two read nothing but the context they are given,
// but they are symbols of the library: taken from the same one.
struct AbiFunctions {
  std::atomic<_Unwind_Reason_Code (*)(_Unwind_Trace_Fn, void*)> backtrace{nullptr};
  std::atomic<_Unwind_Ptr (*)(_Unwind_Context*)> get_ip{nullptr};
  std::atomic<_Unwind_Word (*)(_Unwind_Context*)> get_cfa{nullptr};
};
constinit AbiFunctions abi{};

struct Walk {
  void** addresses;
  std::uintptr_t* slots;  // may be null
  int count;
  int room;
};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  auto* walk = static_cast<Walk*>(data);
  if (walk->count == walk->room) return _URC_END_OF_STACK;
  const _Unwind_Ptr address = abi.get_ip.load(std::memory_order_relaxed)(context);
  if (address == 0) return _URC_END_OF_STACK;
  if (walk->count >= 0) {
    walk->addresses[walk->count] = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    // The frame goes on where the call's return address had been popped.
    if (walk->slots != nullptr)
      walk->slots[walk->count] = abi.get_cfa.load(std::memory_order_relaxed)(context) - sizeof(void*);
  }
  ++walk->count;
  return _URC_NO_REASON;
}

// Always inlined: the first frame is that of the function which calls this.
[[gnu::always_inline]] inline int WalkByAbi(void** addresses, std::uintptr_t* slots, int count) {
  Walk walk{.addresses = addresses, .slots = slots, .count = -1, .room = count};  // -1: without that frame
  abi.backtrace.load(std::memory_order_relaxed)(&Step, &walk);
  return walk.count > 0 ? walk.count : 0;
}

int WalkByLibgcc(void** addresses, int count) { return WalkByAbi(addresses, nullptr, count); }

#if defined(__x86_64__)
int WalkSlots(void** addresses, std::uintptr_t* slots, int count) { return WalkByAbi(addresses, slots, count); }
constexpr WalkSlotsFunction kWalkSlots = &WalkSlots;
#else
constexpr WalkSlotsFunction kWalkSlots = nullptr;  // a return address is wherever the called function puts it
#endif

template <typename Function>
Function SymbolOf(void* library, const char* name) {
  return library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

bool FindAbi(void* library) {
  abi.backtrace = SymbolOf<decltype(abi.backtrace.load())>(library, "_Unwind_Backtrace");
  abi.get_ip = SymbolOf<decltype(abi.get_ip.load())>(library, "_Unwind_GetIP");
  abi.get_cfa = SymbolOf<decltype(abi.get_cfa.load())>(library, "_Unwind_GetCFA");
  return abi.backtrace != nullptr && abi.get_ip != nullptr && abi.get_cfa != nullptr;
}

}  // namespace

LoadedUnwinder FindLibunwind() noexcept {
  // libunwind's cache of a thread ends with a mutex that is locked after ThreadSanitizer has let go of the thread.
  if (kThreadSanitizer) return {};
  void* library = LoadBeside(kInstalledLibunwind);
  if (library == nullptr) library = LoadBeside(kLibunwind);
  if (library == nullptr) library = ::dlopen(kLibunwind, RTLD_NOW | RTLD_LOCAL);
  const auto walk = SymbolOf<WalkFunction>(library, "unw_backtrace");
  if (walk == nullptr) return {};
  return {Unwinder::kLibunwind, walk, FindAbi(library) ? kWalkSlots : nullptr};
}

LoadedUnwinder FindLibgcc() noexcept {
  void* library = ::dlopen(kLibgcc, RTLD_NOW | RTLD_LOCAL);
  if (!FindAbi(library)) return {};
  return {Unwinder::kLibgcc, &WalkByLibgcc, kWalkSlots};
}

}  // namespace stalloc::runtime
