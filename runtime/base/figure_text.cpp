#include "runtime/base/figure_text.h"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>

namespace stalloc::runtime {

std::string SizeText(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) size /= 1024.0;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", unit == 0 ? 0 : 2, size, kUnits[unit]);
  return text;
}

std::string ShareText(std::uint64_t part, std::uint64_t whole) {
  if (part == whole) return "100 %";
  const double per_mille = 1000.0 * static_cast<double>(part) / static_cast<double>(whole);
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %%", std::floor(per_mille) / 10.0);
  return text;
}

}  // namespace stalloc::runtime
