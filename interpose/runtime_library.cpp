#include "runtime_library.h"

#include <atomic>

#include "loader.h"
#include "real_symbols.h"

namespace stalloc::interpose {

bool SetDeviceTakesEffectAtOnce() noexcept {
  static constinit std::atomic<int> version{0};
  int known = version.load(std::memory_order_relaxed);
  if (known == 0) [[unlikely]] {
    const auto get_version =
        reinterpret_cast<decltype(&::cudaRuntimeGetVersion)>(RuntimeSymbol("cudaRuntimeGetVersion"));
    if (get_version == nullptr || get_version(&known) != cudaSuccess) known = 1;
    version.store(known, std::memory_order_relaxed);
  }
  return known >= 12000;
}

}  // namespace stalloc::interpose
