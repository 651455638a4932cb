// Prints where it was loaded and the call sites that it takes, for a comparison of two runs. With an argument: the name
// of a module to take one more from.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <thread>

#include "call_site/deep_calls.h"
#include "runtime/call_sites/call_site.h"

using stalloc::runtime::CallSiteHash;
using stalloc::runtime::CallThrough;
using stalloc::runtime::HashFunction;

namespace {
void Print(std::uint64_t hash) { std::printf("%016llx\n", static_cast<unsigned long long>(hash)); }
}  // namespace

int main(int argc, char** argv) {
  std::printf("%p\n", reinterpret_cast<void*>(&main));
  std::printf("%d\n", static_cast<int>(stalloc::runtime::LoadUnwinder()));
  Print(CallThrough(1, &CallSiteHash, 24));
  Print(CallThrough(1, &CallSiteHash, 24));
  Print(CallThrough(30, &CallSiteHash, 24));
  std::thread([] { Print(CallThrough(2, &CallSiteHash, 24)); }).join();
  if (argc > 1) {
    void* module = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) return 1;
    auto call_back = reinterpret_cast<std::uint64_t (*)(HashFunction)>(::dlsym(module, "CallBack"));
    if (call_back == nullptr) return 2;
    Print(call_back(&CallSiteHash));
  }
  return 0;
}
