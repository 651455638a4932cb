// The log: lines on standard error, `stalloc[pid rN] level: text` (rN only where the launcher gave a rank).
//
// For everything but the serving path: writing a line takes a lock, allocates and calls the kernel. Nothing is set up
// before the first line, no thread is ever started, and nothing is torn down at exit, so that a preload into a process
// that has nothing to say costs nothing. Any thread may call; nothing throws; errors of standard error are ignored.
#pragma once

#include <cstdint>
#include <string_view>

namespace stalloc::runtime {

enum class LogLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug };

// What is said from now on: lines up to and including `level`. kWarn until it is set.
void SetLogLevel(LogLevel level) noexcept;
bool LogEnabled(LogLevel level) noexcept;

void Log(LogLevel level, std::string_view text) noexcept;

// An error: stalloc does not do what it was asked to. A warning: it does something else than might be expected.
inline void LogError(std::string_view text) noexcept { Log(LogLevel::kError, text); }
inline void LogWarn(std::string_view text) noexcept { Log(LogLevel::kWarn, text); }
inline void LogInfo(std::string_view text) noexcept { Log(LogLevel::kInfo, text); }
inline void LogDebug(std::string_view text) noexcept { Log(LogLevel::kDebug, text); }

// A line without a level, whatever the level is: the summary, an out-of-memory report. `stalloc[pid rN] text`.
void LogLine(std::string_view text) noexcept;

}  // namespace stalloc::runtime
