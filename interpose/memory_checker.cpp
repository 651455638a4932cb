#include "memory_checker.h"

#include <link.h>
#include <unistd.h>

#include <string_view>

namespace stalloc::interpose {
namespace {

// libsanitizer-collection.so, which compute-sanitizer's launcher adds to its target's LD_PRELOAD (seen in 13.0
// and 13.5; NVTX_INJECTION64_PATH, which names it too, is in children that are not checked as well), or
// libsanitizer-public.so, which tools of others are linked with and the driver loads. A host sanitizer's library is
// called libasan, libtsan, ...
bool IsCheckersLibrary(std::string_view path) { return path.substr(path.rfind('/') + 1).starts_with("libsanitizer-"); }

bool SaidByTheEnvironment() noexcept {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    constexpr std::string_view kInjection = "CUDA_INJECTION64_PATH=";
    if (text.starts_with(kInjection) && IsCheckersLibrary(text.substr(kInjection.size()))) return true;
  }
  return false;
}

int Looks(dl_phdr_info* library, std::size_t, void*) {
  return library->dlpi_name != nullptr && IsCheckersLibrary(library->dlpi_name) ? 1 : 0;
}

}  // namespace

bool MemoryCheckerAttached() noexcept { return SaidByTheEnvironment() || ::dl_iterate_phdr(&Looks, nullptr) != 0; }

}  // namespace stalloc::interpose
