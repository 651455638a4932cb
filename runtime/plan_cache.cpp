#include "runtime/plan_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan_file.h"
#include "runtime/settings.h"

namespace stalloc::runtime {
namespace {

// What was used so recently may be about to be read, or has just been written.
constexpr std::time_t kInUseSeconds = 600;
// A writer that has not renamed its file by now never will.
constexpr std::time_t kAbandonedSeconds = std::time_t{24} * 3600;

constexpr std::string_view kPlanSuffix = ".plan";
constexpr std::string_view kTrash = ".deleted-";

enum class Kind { kForeign, kPlan, kRemains };

// By the name alone.
Kind KindOf(std::string_view name) {
  constexpr std::size_t kDigits = 16;
  if (name.size() <= kDigits || name[kDigits] != '.') return Kind::kForeign;
  for (const char c : name.substr(0, kDigits))
    if (std::strchr("0123456789abcdef", c) == nullptr) return Kind::kForeign;
  const std::size_t plan = name.find(kPlanSuffix, kDigits);
  if (plan == std::string_view::npos) return Kind::kForeign;
  std::string_view rest = name.substr(plan + kPlanSuffix.size());
  constexpr std::string_view kDevice = ".device";
  if (rest.starts_with(kDevice)) {
    rest.remove_prefix(kDevice.size());
    while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest.front())) != 0) rest.remove_prefix(1);
  }
  if (rest.empty()) return Kind::kPlan;
  return rest.starts_with(".tmp-") || rest.starts_with(kTrash) ? Kind::kRemains : Kind::kForeign;
}

// Is `path` a plan file by its first bytes?
bool BeginsAsPlan(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  char head[sizeof planner::kPlanFileMagic] = {};
  const bool is = ::read(file, head, sizeof head) == static_cast<ssize_t>(sizeof head) &&
                  std::memcmp(head, planner::kPlanFileMagic, sizeof head) == 0;
  ::close(file);
  return is;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) names.emplace_back(entry->d_name);
  ::closedir(directory);
  return names;
}

struct Kept {
  std::string path;
  struct stat status;
};

bool Same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Another process may put a new file in the place of the one that was looked at, at any moment: so it is first taken
// out of the way by a rename, then looked at again, and put back if it is another.
bool Delete(const Kept& kept) {
  const std::string trash = kept.path + std::string(kTrash) + std::to_string(::getpid());
  if (::rename(kept.path.c_str(), trash.c_str()) != 0) return false;
  struct stat now {};
  const bool same = ::stat(trash.c_str(), &now) == 0 && Same(now, kept.status);
  if (!same && ::link(trash.c_str(), kept.path.c_str()) != 0 && errno != EEXIST) {
    ::rename(trash.c_str(), kept.path.c_str());
    return false;
  }
  ::unlink(trash.c_str());
  return same;
}

}  // namespace

void MakeFolder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1))
    ::mkdir(folder.substr(0, slash).c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
}

std::string PlanPath(const Settings& settings, std::uint64_t program, const std::string& device_name, int ordinal) {
  const std::string suffix = ordinal == 0 ? "" : ".device" + std::to_string(ordinal);
  if (!settings.plan.empty()) return settings.plan.Expand() + suffix;
  if (!settings.plan_cache.enabled || settings.plan_cache.directory.empty() || program == 0) return {};
  std::string device;
  for (const char c : device_name) device += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  char key[32];
  std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(program));
  return settings.plan_cache.directory + "/" + key + "." + device + std::string(kPlanSuffix) + suffix;
}

void NotePlanUsed(const std::string& path) noexcept { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::optional<planner::FileError> KeepPlan(const std::string& path, const planner::Plan& plan,
                                           std::uint64_t cache_bytes) {
  if (cache_bytes == 0) return planner::WritePlanFile(path, plan);
  const std::string folder = path.substr(0, path.rfind('/'));
  MakeFolder(folder);
  auto error = planner::WritePlanFile(path, plan);
  if (!error) TrimPlanCache(folder, cache_bytes);
  return error;
}

std::uint64_t TrimPlanCache(const std::string& folder, std::uint64_t limit_bytes) {
  const std::time_t now = std::time(nullptr);
  std::vector<Kept> plans;
  std::uint64_t bytes = 0;
  for (const std::string& name : NamesIn(folder)) {
    const Kind kind = KindOf(name);
    Kept kept{folder, {}};
    kept.path.append("/").append(name);
    if (kind == Kind::kForeign || ::lstat(kept.path.c_str(), &kept.status) != 0 || !S_ISREG(kept.status.st_mode))
      continue;
    if (kind == Kind::kRemains) {
      if (now - kept.status.st_mtim.tv_sec > kAbandonedSeconds) ::unlink(kept.path.c_str());
      continue;
    }
    if (!BeginsAsPlan(kept.path)) continue;
    bytes += static_cast<std::uint64_t>(kept.status.st_size);
    plans.push_back(std::move(kept));
  }
  std::sort(plans.begin(), plans.end(), [](const Kept& a, const Kept& b) {
    return std::pair(a.status.st_mtim.tv_sec, a.status.st_mtim.tv_nsec) <
           std::pair(b.status.st_mtim.tv_sec, b.status.st_mtim.tv_nsec);
  });
  std::uint64_t deleted = 0;
  for (const Kept& kept : plans) {
    if (bytes - deleted <= limit_bytes || now - kept.status.st_mtim.tv_sec < kInUseSeconds) break;
    if (Delete(kept)) deleted += static_cast<std::uint64_t>(kept.status.st_size);
  }
  return deleted;
}

}  // namespace stalloc::runtime
