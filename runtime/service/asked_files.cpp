#include "runtime/service/asked_files.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <optional>
#include <string>

#include "runtime/base/log.h"

namespace stalloc::runtime {
namespace {

// Holds the number of the process whose affair the files are: the same behind an exec, another behind a fork.
constexpr const char* kAskedOf = "_STALLOC_ASKED_OF";

std::time_t noted_at = 0;

// Matches every file that the pattern may stand for in some process of the run.
std::string GlobOf(const std::string& pattern) {
  std::string glob;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%' && i + 1 < pattern.size()) {
      glob += pattern[++i] == '%' ? "%" : "*";
    } else {
      if (std::strchr("*?[\\", pattern[i]) != nullptr) glob += '\\';
      glob += pattern[i];
    }
  }
  return glob;
}

// nullopt: it cannot be told, for what was written into a device or a pipe leaves no trace there.
std::optional<bool> WasWritten(const PathPattern& pattern) {
  glob_t found{};
  std::optional<bool> written = false;
  if (::glob(GlobOf(pattern.text).c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc && written == false; ++i) {
      struct stat status {};
      if (::stat(found.gl_pathv[i], &status) != 0) continue;
      // A file system's clock may lag behind by a tick.
      if (S_ISREG(status.st_mode)) {
        written = status.st_size > 0 && status.st_mtime + 1 >= noted_at;
      } else {
        written = std::nullopt;
      }
    }
  }
  ::globfree(&found);
  return written;
}

}  // namespace

void NoteAskedFiles(const Settings& settings) {
  if (settings.stats.empty() && settings.trace.empty() && settings.plan.empty()) return;
  const std::string self = std::to_string(::getpid());
  const char* const asked_of = std::getenv(kAskedOf);  // NOLINT(concurrency-mt-unsafe): before main
  if (asked_of != nullptr && self != asked_of) return;
  ::setenv(kAskedOf, self.c_str(), 1);
  noted_at = std::time(nullptr);
}

void SayWhichFilesAreMissing(const Settings& settings) noexcept {
  try {
    const char* const asked_of = std::getenv(kAskedOf);  // NOLINT(concurrency-mt-unsafe): after main
    if (noted_at == 0 || asked_of == nullptr || std::to_string(::getpid()) != asked_of) return;
    std::string missing;
    bool served = false;
    const auto check = [&](const char* setting, const PathPattern& pattern) {
      if (pattern.empty()) return;
      const std::optional<bool> written = WasWritten(pattern);
      if (written == true) {
        served = true;
      } else if (written == false) {
        missing.append(missing.empty() ? "" : ", ").append(pattern.text).append(" (").append(setting).append(")");
      }
    };
    check("STALLOC_STATS", settings.stats);
    check("STALLOC_TRACE", settings.trace);
    const bool known = !missing.empty();  // a run that is served writes these; a plan, only where it makes one
    if (settings.planning) check("STALLOC_PLAN", settings.plan);
    if (missing.empty() || served) return;
    SetLogLevel(settings.log);
    LogWarn(std::string("this run asked CUDA for no memory that could be served") +
            (known ? "" : ", or did nothing that could be planned") + ": nothing was written into " + missing +
            "; `stalloc doctor -- CMD` says whether CMD would be served");
  } catch (const std::exception&) {  // the program's end must not fail on it
  }
}

}  // namespace stalloc::runtime
