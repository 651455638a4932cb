#include "runtime/base/settings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/settings_values.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/nearest_word.h"
#include "runtime/base/process_identity.h"

namespace stalloc::runtime {
namespace {

constexpr std::string_view kPrefix = "STALLOC_";

// Every name of the table.
// NOLINTBEGIN(bugprone-suspicious-missing-comma): each name is two literals
constexpr std::string_view kNames[] = {
#define STALLOC_SETTING(type, member, name, default_value, sentence) "STALLOC_" #name,
#define STALLOC_RANGED_SETTING(type, member, name, default_value, smallest, largest, sentence) "STALLOC_" #name,
#define STALLOC_OTHER_NAME(name)
#include "runtime/base/settings.def"
#undef STALLOC_OTHER_NAME
#undef STALLOC_RANGED_SETTING
#undef STALLOC_SETTING
};

constexpr std::string_view kOtherNames[] = {
#define STALLOC_SETTING(type, member, name, default_value, sentence)
#define STALLOC_RANGED_SETTING(type, member, name, default_value, smallest, largest, sentence)
#define STALLOC_OTHER_NAME(name) "STALLOC_" #name,
#include "runtime/base/settings.def"
#undef STALLOC_OTHER_NAME
#undef STALLOC_RANGED_SETTING
#undef STALLOC_SETTING
};
// NOLINTEND(bugprone-suspicious-missing-comma)

std::string RangeForm(auto smallest, auto largest) { return FormatSetting(smallest) + ".." + FormatSetting(largest); }

std::string BadValue(std::string_view name, std::string_view value, const std::string& form,
                     const std::string& default_value) {
  std::string text(name);
  text.append("=").append(value).append(" is ignored: it must be ").append(form);
  if (form.starts_with("SIZE")) text.append(" (a size is ").append(kByteSizeGrammar).append(")");
  if (default_value.empty()) return text.append("; it is as if it were not set");
  return text.append("; the default, ").append(default_value).append(", holds");
}

enum class Outcome { kUnknownName, kBadValue, kSet };

// Sets the member that `name` stands for. On kBadValue, *complaint is the warning.
Outcome Assign(std::string_view name, std::string_view value, Settings* settings, std::string* complaint) {
#define STALLOC_SETTING(type, member, variable, default_value, sentence)                                 \
  if (name == "STALLOC_" #variable) {                                                                    \
    if (ParseSetting(value, &settings->member)) return Outcome::kSet;                                    \
    *complaint = BadValue(name, value, SettingForm(settings->member), FormatSetting(Settings{}.member)); \
    return Outcome::kBadValue;                                                                           \
  }
#define STALLOC_RANGED_SETTING(type, member, variable, default_value, smallest, largest, sentence)         \
  if (name == "STALLOC_" #variable) {                                                                      \
    type number{};                                                                                         \
    if (ParseSetting(value, &number) && number >= (smallest) && number <= (largest)) {                     \
      settings->member = number;                                                                           \
      return Outcome::kSet;                                                                                \
    }                                                                                                      \
    *complaint = BadValue(name, value, RangeForm(static_cast<type>(smallest), static_cast<type>(largest)), \
                          FormatSetting(static_cast<type>(default_value)));                                \
    return Outcome::kBadValue;                                                                             \
  }
#define STALLOC_OTHER_NAME(variable)
#include "runtime/base/settings.def"
#undef STALLOC_OTHER_NAME
#undef STALLOC_RANGED_SETTING
#undef STALLOC_SETTING
  return Outcome::kUnknownName;
}

std::string UnknownName(std::string_view name) {
  std::string text = "there is no setting " + std::string(name);
  // The prefix, which all have, would make any two of them alike.
  std::array<std::string_view, std::size(kNames)> known;
  std::transform(std::begin(kNames), std::end(kNames), known.begin(),
                 [](std::string_view full) { return full.substr(kPrefix.size()); });
  if (const auto nearest = NearestWord(name.substr(kPrefix.size()), known))
    text.append(" (did you mean ").append(kPrefix).append(*nearest).append("?)");
  return text + "; it is ignored";
}

// Value of a variable in the block; empty if it is not there.
std::string_view ValueIn(const char* const* block, std::string_view name) {
  for (; block != nullptr && *block != nullptr; ++block) {
    const std::string_view entry(*block);
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

// Fills in the directory by the XDG base directory rules, which want relative paths ignored.
void FindDirectory(const char* const* block, PlanCache* cache) {
  if (!cache->enabled || !cache->directory.empty()) return;
  const std::string_view xdg = ValueIn(block, "XDG_CACHE_HOME");
  const std::string_view home = ValueIn(block, "HOME");
  if (xdg.starts_with('/')) {
    cache->directory = std::string(xdg) + "/stalloc";
  } else if (home.starts_with('/')) {
    cache->directory = std::string(home) + "/.cache/stalloc";
  } else {
    cache->enabled = false;
  }
}

}  // namespace

std::string PathPattern::Expand() const {
  if (text.find('%') == std::string::npos) return text;
  const ProcessIdentity process = ThisProcess();
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 1 == text.size()) {
      path += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'p':
        path += std::to_string(process.pid);
        break;
      case 'h':
        path += process.host;
        break;
      case 'r':
        path += std::to_string(process.rank.value_or(0));
        break;
      default:
        path += text[i];
        break;
    }
  }
  return path;
}

std::optional<std::uint64_t> MemoryLimit::BytesOn(std::uint64_t device_bytes) const noexcept {
  if (share > 0.0) return static_cast<std::uint64_t>(share * static_cast<double>(device_bytes));
  if (bytes > 0) return bytes;
  return std::nullopt;
}

Settings LoadSettings(const char* const* environ_block, std::vector<std::string>* warnings) {
  Settings settings;
  for (const char* const* entry = environ_block; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kPrefix.data(), kPrefix.size()) != 0) continue;
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 == text.size()) continue;
    const std::string_view name = text.substr(0, equals);
    std::string complaint;
    switch (Assign(name, text.substr(equals + 1), &settings, &complaint)) {
      case Outcome::kSet:
        break;
      case Outcome::kBadValue:
        warnings->push_back(std::move(complaint));
        break;
      case Outcome::kUnknownName:
        if (std::find(std::begin(kOtherNames), std::end(kOtherNames), name) == std::end(kOtherNames)) {
          warnings->push_back(UnknownName(name));
        }
        break;
    }
  }
  FindDirectory(environ_block, &settings.plan_cache);
  return settings;
}

std::vector<SettingDescription> DescribeSettings() {
  const Settings defaults;
  return {
#define STALLOC_SETTING(type, member, name, default_value, sentence) \
  {"STALLOC_" #name, SettingForm(defaults.member), FormatSetting(defaults.member), sentence},
#define STALLOC_RANGED_SETTING(type, member, name, default_value, smallest, largest, sentence) \
  {"STALLOC_" #name, RangeForm(static_cast<type>(smallest), static_cast<type>(largest)),       \
   FormatSetting(defaults.member), sentence},
#define STALLOC_OTHER_NAME(name)
#include "runtime/base/settings.def"
#undef STALLOC_OTHER_NAME
#undef STALLOC_RANGED_SETTING
#undef STALLOC_SETTING
  };
}

}  // namespace stalloc::runtime
