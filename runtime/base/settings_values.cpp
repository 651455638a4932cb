#include "base/settings_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/byte_size.h"

namespace stalloc::runtime {
namespace {

bool SameWord(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The words of an enumeration in the order of its values.
template <typename Enum>
struct Words;
template <>
struct Words<LogLevel> {
  static constexpr std::string_view kList[] = {"off", "error", "warn", "info", "debug"};
};
template <>
struct Words<StatsSignal> {
  static constexpr std::string_view kList[] = {"off", "SIGUSR1", "SIGUSR2"};
};
template <>
struct Words<Ipc> {
  static constexpr std::string_view kList[] = {"auto", "off", "on"};
};
template <>
struct Words<Serve> {
  static constexpr std::string_view kList[] = {"auto", "async", "all"};
};

template <typename Enum>
bool ParseWord(std::string_view text, Enum* value) {
  std::size_t i = 0;
  for (std::string_view word : Words<Enum>::kList) {
    if (SameWord(text, word)) {
      *value = static_cast<Enum>(i);
      return true;
    }
    ++i;
  }
  return false;
}

template <typename Enum>
std::string WordOf(Enum value) {
  return std::string(Words<Enum>::kList[static_cast<std::size_t>(value)]);
}

template <typename Enum>
std::string AllWords() {
  std::string all;
  for (std::string_view word : Words<Enum>::kList) {
    if (!all.empty()) all += '|';
    all += word;
  }
  return all;
}

constexpr double kLeastGrowth = 1.0;
constexpr double kMostGrowth = 4.0;

// The whole of `text` as a number; from_chars, unlike strtod, does not depend on the program's locale.
template <typename Number>
bool ParseNumber(std::string_view text, Number* value) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return false;
  *value = number;
  return true;
}

}  // namespace

bool ParseSetting(std::string_view text, bool* value) {
  for (std::string_view word : {"1", "on", "true", "yes"}) {
    if (SameWord(text, word)) return *value = true, true;
  }
  for (std::string_view word : {"0", "off", "false", "no"}) {
    if (SameWord(text, word)) return *value = false, true;
  }
  return false;
}

bool ParseSetting(std::string_view text, int* value) { return ParseNumber(text, value); }

bool ParseSetting(std::string_view text, double* value) {
  double number = 0.0;
  if (!ParseNumber(text, &number) || !std::isfinite(number)) return false;
  *value = number;
  return true;
}

bool ParseSetting(std::string_view text, Growth* value) {
  if (SameWord(text, "auto")) return *value = Growth{}, true;
  double number = 0.0;
  if (!ParseSetting(text, &number) || !(number >= kLeastGrowth && number <= kMostGrowth)) return false;
  value->fixed = number;
  return true;
}

bool ParseSetting(std::string_view text, PathPattern* value) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') continue;
    if (++i == text.size() || std::string_view("phr%").find(text[i]) == std::string_view::npos) return false;
  }
  value->text = text;
  return true;
}

bool ParseSetting(std::string_view text, MemoryLimit* value) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    double percent = 0.0;
    if (!ParseNumber(text, &percent) || !(percent > 0.0 && percent <= 100.0)) return false;
    *value = MemoryLimit{.bytes = 0, .share = percent / 100.0};
    return true;
  }
  ByteSize size;
  if (!ParseSetting(text, &size)) return false;
  *value = MemoryLimit{.bytes = size.bytes, .share = 0.0};
  return true;
}

bool ParseSetting(std::string_view text, ByteSize* value) {
  const std::optional<std::uint64_t> bytes = ParseByteSize(text);
  if (!bytes) return false;
  *value = ByteSize{*bytes};
  return true;
}

bool ParseSetting(std::string_view text, PlanCache* value) {
  bool enabled = false;
  if (ParseSetting(text, &enabled)) {
    *value = PlanCache{.enabled = enabled, .directory = {}};
    return true;
  }
  // A word that is neither on nor off and no path either is more likely a slip than a directory's name.
  if (text.find('/') == std::string_view::npos) return false;
  *value = PlanCache{.enabled = true, .directory = std::string(text)};
  return true;
}

bool ParseSetting(std::string_view text, StatsSignal* value) { return ParseWord(text, value); }
bool ParseSetting(std::string_view text, LogLevel* value) { return ParseWord(text, value); }
bool ParseSetting(std::string_view text, Ipc* value) { return ParseWord(text, value); }
bool ParseSetting(std::string_view text, Serve* value) { return ParseWord(text, value); }

std::string FormatSetting(bool value) { return value ? "1" : "0"; }
std::string FormatSetting(int value) { return std::to_string(value); }

std::string FormatSetting(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, error == std::errc{} ? end : buffer);
  if (text.find_first_not_of("0123456789") == std::string::npos) text += ".0";  // to be told from a whole number
  return text;
}

std::string FormatSetting(const Growth& value) { return value.fixed ? FormatSetting(*value.fixed) : "auto"; }

std::string FormatSetting(const PathPattern& value) { return value.text; }

std::string FormatSetting(const MemoryLimit& value) {
  if (value.share > 0.0) return FormatSetting(value.share * 100.0) + "%";
  return value.bytes > 0 ? std::to_string(value.bytes) : std::string();
}

std::string FormatSetting(const PlanCache& value) {
  if (!value.enabled) return "off";
  return value.directory.empty() ? "on" : value.directory;
}

std::string FormatSetting(const ByteSize& value) {
  static constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::uint64_t number = value.bytes;
  std::size_t unit = 0;
  for (; number != 0 && number % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  return std::to_string(number) + kUnits[unit];
}

std::string FormatSetting(StatsSignal value) { return WordOf(value); }
std::string FormatSetting(LogLevel value) { return WordOf(value); }
std::string FormatSetting(Ipc value) { return WordOf(value); }
std::string FormatSetting(Serve value) { return WordOf(value); }

std::string SettingForm(bool) { return "0|1"; }
std::string SettingForm(const Growth&) {
  return "auto|" + FormatSetting(kLeastGrowth) + ".." + FormatSetting(kMostGrowth);
}
std::string SettingForm(const PathPattern&) { return "FILE"; }
std::string SettingForm(const MemoryLimit&) { return "SIZE|PERCENT%"; }
std::string SettingForm(const PlanCache&) { return "on|off|DIRECTORY"; }
std::string SettingForm(const ByteSize&) { return "SIZE"; }
std::string SettingForm(StatsSignal) { return AllWords<StatsSignal>(); }
std::string SettingForm(LogLevel) { return AllWords<LogLevel>(); }
std::string SettingForm(Ipc) { return AllWords<Ipc>(); }
std::string SettingForm(Serve) { return AllWords<Serve>(); }

}  // namespace stalloc::runtime
