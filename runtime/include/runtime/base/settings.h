// Settings: what the user may choose, by STALLOC_* environment variables. The variables stand in settings.def.
//
// Read once, by LoadSettings, and constant from then on. Nothing here has static constructors; LoadSettings may be
// called from a library constructor and allocates only what it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/log.h"

namespace stalloc::runtime {

// A file name in which %p stands for the process id, %h for the host, %r for the rank (0 where there is none) and %%
// for a percent sign. Empty: not set.
struct PathPattern {
  std::string text;

  bool empty() const noexcept { return text.empty(); }
  // The file name for this process.
  std::string Expand() const;

  friend bool operator==(const PathPattern&, const PathPattern&) = default;
};

// A ceiling in bytes or as a share of the device's memory.
struct MemoryLimit {
  std::uint64_t bytes = 0;  // 0: not given in bytes
  double share = 0.0;       // 0: not given as a share; otherwise in (0, 1]

  // The ceiling on a device with `device_bytes` of memory; nullopt: there is none.
  std::optional<std::uint64_t> BytesOn(std::uint64_t device_bytes) const noexcept;

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

struct PlanCache {
  bool enabled = true;
  std::string directory;  // set by LoadSettings wherever `enabled`

  friend bool operator==(const PlanCache&, const PlanCache&) = default;
};

// A size in bytes that is always there.
struct ByteSize {
  std::uint64_t bytes = 0;

  friend bool operator==(const ByteSize&, const ByteSize&) = default;
};

// A multiple of the peak of live bytes, or as the time demands that is spent for want of memory (TimeBudget).
struct Growth {
  std::optional<double> fixed;  // in [1, 4]

  friend bool operator==(const Growth&, const Growth&) = default;
};

enum class StatsSignal : std::uint8_t { kOff, kUser1, kUser2 };
enum class Ipc : std::uint8_t { kAuto, kOff, kOn };
enum class Serve : std::uint8_t { kAuto, kAsync, kAll };

struct Settings {
#define STALLOC_SETTING(type, member, name, default_value, sentence) type member = default_value;
#define STALLOC_RANGED_SETTING(type, member, name, default_value, smallest, largest, sentence) \
  type member = default_value;
#define STALLOC_OTHER_NAME(name)
#include "runtime/base/settings.def"
#undef STALLOC_SETTING
#undef STALLOC_RANGED_SETTING
#undef STALLOC_OTHER_NAME
};

// Reads the settings out of an environment block (NAME=VALUE strings, the last pointer null; a null block is an empty
// one). A value that cannot be used and a STALLOC_* name that does not exist give one warning each, appended to
// `warnings` as a sentence without a line end; such a setting keeps its default. An empty value counts as not set.
Settings LoadSettings(const char* const* environ_block, std::vector<std::string>* warnings);

// One row of the documentation.
struct SettingDescription {
  const char* name;           // STALLOC_GROWTH
  std::string form;           // what may stand behind the '=': "0|1", "FILE", "1..64"
  std::string default_value;  // as the user would write it; empty: not set
  const char* sentence;
};
std::vector<SettingDescription> DescribeSettings();

}  // namespace stalloc::runtime
