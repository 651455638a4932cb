#include "runtime/base/byte_size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace stalloc::runtime {
namespace {

constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 63) - 1;

char Lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Factor of a unit; 0: there is no such unit.
std::uint64_t UnitBytes(std::string_view unit) noexcept {
  if (unit.empty() || (unit.size() == 1 && Lower(unit[0]) == 'b')) return 1;
  const std::size_t power = std::string_view("kmgt").find(Lower(unit[0]));
  const bool decimal = unit.size() == 2 && Lower(unit[1]) == 'b';
  const bool binary = unit.size() == 1 || (unit.size() == 3 && Lower(unit[1]) == 'i' && Lower(unit[2]) == 'b');
  if (power == std::string_view::npos || (!decimal && !binary)) return 0;
  const std::uint64_t base = decimal ? 1000 : 1024;
  std::uint64_t bytes = base;
  for (std::size_t i = 0; i < power; ++i) bytes *= base;
  return bytes;
}

}  // namespace

std::optional<std::uint64_t> ParseByteSize(std::string_view text) noexcept {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::uint64_t factor = UnitBytes(unit);
  const char* const end = text.data() + digits;
  // from_chars, unlike strtod, does not depend on the program's locale.
  std::uint64_t whole = 0;
  std::uint64_t bytes = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole); error == std::errc{} && stop == end) {
    if (__builtin_mul_overflow(whole, factor, &bytes)) return std::nullopt;
  } else {
    double number = 0;
    const auto [last, wrong] = std::from_chars(text.data(), end, number);
    if (wrong != std::errc{} || last != end) return std::nullopt;
    const double product = number * static_cast<double>(factor);
    if (!(product < std::ldexp(1.0, 63))) return std::nullopt;
    bytes = static_cast<std::uint64_t>(product);
  }
  if (bytes == 0 || bytes > kMostBytes) return std::nullopt;
  return bytes;
}

}  // namespace stalloc::runtime
