#include "entry_points.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stalloc::interpose {

// The addresses are this library's own (the library is linked with -Bsymbolic-functions), whatever else in the process
// exports the same names.
const EntryPoint kEntryPoints[kEntryCount] = {
#define STALLOC_DRIVER(name, base, version, handling) \
  {#name, #base, version, Library::kDriver, Streams::kLegacy, Handling::handling, reinterpret_cast<void*>(&::name)},
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) \
  {#name, #base, version, Library::kDriver, Streams::kPerThread, Handling::handling, reinterpret_cast<void*>(&::name)},
#define STALLOC_RUNTIME(name, declaration, handling) \
  {#name, nullptr, 0, Library::kRuntime, Streams::kLegacy, Handling::handling, reinterpret_cast<void*>(&::name)},
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) \
  {#name, nullptr, 0, Library::kRuntime, Streams::kPerThread, Handling::handling, reinterpret_cast<void*>(&::name)},
#include "entry_points.def"
};

namespace {

struct NamedEntry {
  std::string_view name;
  Entry entry;
};

// A program makes hundreds of look-ups of names that begin with "cu" while it starts; sorted at compile time, each
// costs seven comparisons.
constexpr auto kByName = [] {
  std::array<NamedEntry, kEntryCount> rows{{
#define STALLOC_DRIVER(name, base, version, handling) {#name, Entry::k_##name},
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) {#name, Entry::k_##name},
#define STALLOC_RUNTIME(name, declaration, handling) {#name, Entry::k_##name},
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) {#name, Entry::k_##name},
#include "entry_points.def"
  }};
  std::sort(rows.begin(), rows.end(), [](const NamedEntry& a, const NamedEntry& b) { return a.name < b.name; });
  return rows;
}();

}  // namespace

const EntryPoint* FindEntryPoint(const char* name) noexcept {
  const std::string_view wanted = name;
  const auto row = std::lower_bound(kByName.begin(), kByName.end(), wanted,
                                    [](const NamedEntry& a, std::string_view b) { return a.name < b; });
  return row != kByName.end() && row->name == wanted ? &PointOf(row->entry) : nullptr;
}

}  // namespace stalloc::interpose
