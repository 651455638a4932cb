#include "runtime/learning/plan_cache.h"

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
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan_file.h"
#include "planner/whole_file.h"
#include "runtime/base/process_identity.h"
#include "runtime/base/settings.h"

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

// The plan of a name: "<content>.plan", behind the stem. Older versions, one file a device, had none.
constexpr std::size_t kContentDigits = 16;

std::string HexOf(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

// Of the name of a plan in the cache: all but its content. Names without one are each their own.
std::string_view StemOf(std::string_view name) {
  const std::size_t behind = kContentDigits + kPlanSuffix.size();
  if (name.size() <= behind || !name.ends_with(kPlanSuffix)) return name;
  const std::string_view content = name.substr(name.size() - behind, kContentDigits);
  if (content.find_first_not_of("0123456789abcdef") != std::string_view::npos) return name;
  const std::string_view stem = name.substr(0, name.size() - behind);
  return stem.ends_with('.') ? stem : name;
}

struct Kept {
  std::string path;
  std::string_view stem;
  PlanFileState state;
  std::uint64_t bytes = 0;
};

PlanFileState StateOf(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .used_s = status.st_mtim.tv_sec,
          .used_ns = status.st_mtim.tv_nsec};
}

bool UsedBefore(const PlanFileState& a, const PlanFileState& b) {
  return std::pair(a.used_s, a.used_ns) < std::pair(b.used_s, b.used_ns);
}

}  // namespace

std::optional<PlanFileState> StateOf(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return StateOf(status);
}

// Another process may put a new file in the place of the one that was looked at, at any moment: so it is first taken
// out of the way by a rename, then looked at again, and put back if it is another. The name that it has meanwhile is
// nobody else's: processes of other hosts and containers have the same numbers.
bool DeletePlan(const std::string& path, const PlanFileState& state) {
  const std::string trash = planner::NameBeside(path, kTrash);
  if (::rename(path.c_str(), trash.c_str()) != 0) return false;
  const bool same = StateOf(trash) == state;
  if (!same && ::link(trash.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    ::rename(trash.c_str(), path.c_str());
    return false;
  }
  ::unlink(trash.c_str());
  return same;
}

void MakeFolder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1))
    ::mkdir(folder.substr(0, slash).c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
}

PlanShelf ShelfOf(const Settings& settings, std::uint64_t program, const std::string& device_name, int ordinal) {
  PlanShelf shelf;
  if (!settings.plan.empty()) {
    shelf.file = settings.plan.Expand() + (ordinal == 0 ? "" : ".device" + std::to_string(ordinal));
    if (const auto rank = ThisProcess().rank) shelf.own_file = shelf.file + ".rank" + std::to_string(*rank);
    return shelf;
  }
  if (!settings.plan_cache.enabled || settings.plan_cache.directory.empty() || program == 0) return shelf;
  shelf.folder = settings.plan_cache.directory;
  shelf.cache_bytes = settings.plan_cache_size.bytes;
  shelf.stem = HexOf(program) + ".";
  for (const char c : device_name) shelf.stem += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  shelf.stem += '.';
  return shelf;
}

std::string PlanPath(const PlanShelf& shelf, std::uint64_t content) {
  if (shelf.folder.empty()) return shelf.file;
  return shelf.folder + "/" + shelf.stem + HexOf(content) + std::string(kPlanSuffix);
}

std::vector<std::string> KeptPlans(const PlanShelf& shelf) {
  if (shelf.folder.empty()) {
    std::vector<std::string> files;
    for (const std::string& file : {shelf.own_file, shelf.file})
      if (!file.empty() && ::access(file.c_str(), F_OK) == 0) files.push_back(file);
    return files;
  }
  std::vector<std::pair<PlanFileState, std::string>> plans;
  for (const std::string& name : NamesIn(shelf.folder)) {
    if (name.size() == shelf.stem.size() || StemOf(name) != shelf.stem) continue;
    std::string path = shelf.folder;
    path.append("/").append(name);
    if (const auto state = StateOf(path)) plans.emplace_back(*state, std::move(path));
  }
  std::sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return UsedBefore(b.first, a.first) || (!UsedBefore(a.first, b.first) && a.second < b.second);
  });
  if (plans.size() > kMostPlansOfAProgram) plans.resize(kMostPlansOfAProgram);
  std::vector<std::string> paths;
  for (auto& plan : plans) paths.push_back(std::move(plan.second));
  return paths;
}

void NotePlanUsed(const std::string& path) noexcept { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::optional<planner::FileError> KeepPlan(const std::string& path, const planner::Plan& plan,
                                           std::uint64_t cache_bytes, bool overwrite) {
  if (cache_bytes == 0) {
    if (auto obstacle = planner::FindObstacle(path, planner::kPlanFileMagic)) return obstacle;
    return planner::WritePlanFile(path, plan, overwrite);
  }
  const std::string folder = path.substr(0, path.rfind('/'));
  MakeFolder(folder);
  auto error = planner::WritePlanFile(path, plan, overwrite);
  if (!error) TrimPlanCache(folder, cache_bytes);
  return error;
}

std::uint64_t TrimPlanCache(const std::string& folder, std::uint64_t limit_bytes) {
  const std::time_t now = std::time(nullptr);
  const std::vector<std::string> names = NamesIn(folder);
  std::vector<Kept> plans;
  std::map<std::string_view, std::size_t> plans_of;
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    const Kind kind = KindOf(name);
    const std::string path = folder + "/" + name;
    struct stat status {};
    if (kind == Kind::kForeign || ::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (kind == Kind::kRemains) {
      if (now - status.st_mtim.tv_sec > kAbandonedSeconds) ::unlink(path.c_str());
      continue;
    }
    if (!BeginsAsPlan(path)) continue;
    plans.push_back({path, StemOf(name), StateOf(status), static_cast<std::uint64_t>(status.st_size)});
    bytes += plans.back().bytes;
    ++plans_of[plans.back().stem];
  }
  std::sort(plans.begin(), plans.end(), [](const Kept& a, const Kept& b) { return UsedBefore(a.state, b.state); });
  std::uint64_t deleted = 0;
  for (const Kept& kept : plans) {
    if (now - kept.state.used_s < kInUseSeconds) break;
    std::size_t& of_program = plans_of[kept.stem];
    if (bytes - deleted <= limit_bytes && of_program <= kMostPlansOfAProgram) continue;
    if (!DeletePlan(kept.path, kept.state)) continue;
    deleted += kept.bytes;
    --of_program;
  }
  return deleted;
}

}  // namespace stalloc::runtime
