#include "runtime/service/program_needs.h"

#include <cinttypes>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>

#include "planner/whole_file.h"
#include "runtime/base/cancellation_off.h"
#include "runtime/call_sites/program_fingerprint.h"
#include "runtime/learning/plan_cache.h"

namespace stalloc::runtime {
namespace {

constexpr const char* kNames[] = {"graph-pools", "ipc"};
constexpr const char* kHead = "stalloc-needs 1";

std::string PathOf(const Settings& settings) {
  if (!settings.plan_cache.enabled || settings.plan_cache.directory.empty()) return {};
  char name[32];
  std::snprintf(name, sizeof name, "/%016" PRIx64 ".needs", ProgramFingerprint());
  return settings.plan_cache.directory + name;
}

// The file's text; empty if there is none of this version.
std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line) || line != kHead) return {};
  std::string text = line + '\n';
  while (text.size() < 4096 && std::getline(file, line)) text += line + '\n';
  return text;
}

std::string LineOf(Need need) { return std::string("\n") + kNames[static_cast<std::size_t>(need)] + '\n'; }

}  // namespace

bool KnownToNeed(const Settings& settings, Need need) noexcept {
  const CancellationOff no_cancellation;
  try {
    const std::string path = PathOf(settings);
    return !path.empty() && Read(path).find(LineOf(need)) != std::string::npos;
  } catch (const std::exception&) {
    return false;
  }
}

std::string KeepNeed(const Settings& settings, Need need) noexcept {
  const CancellationOff no_cancellation;
  try {
    const std::string path = PathOf(settings);
    if (path.empty()) return {};
    std::string text = Read(path);
    if (text.find(LineOf(need)) != std::string::npos) return path;
    MakeFolder(settings.plan_cache.directory);
    if (text.empty()) text = std::string(kHead) + '\n';
    text += LineOf(need).substr(1);
    return planner::WriteWholeFile(path, std::as_bytes(std::span(text)), true) ? std::string() : path;
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace stalloc::runtime
