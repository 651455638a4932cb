#include "runtime/call_sites/program_fingerprint.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "call_sites/module_map.h"

namespace stalloc::runtime {
bool IsPython(std::string_view program) noexcept {
  const std::size_t slash = program.rfind('/');
  if (slash != std::string_view::npos) program.remove_prefix(slash + 1);
  return program.starts_with("python") || program.starts_with("pypy");
}

std::vector<std::string> ArgumentsOfThisProcess() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    arguments.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

namespace {

// A path as the next run will see it too, from whichever folder it is started.
std::string Absolute(const std::string& script) {
  if (script.empty() || script.starts_with('-')) return script;
  char resolved[PATH_MAX];
  return ::realpath(script.c_str(), resolved) != nullptr ? resolved : script;
}

}  // namespace

// Python's own command line: single letters may be joined ("-uW ignore"); -c and -m end the options, -W and -X take a
// value, joined or as the next argument.
std::string ScriptOf(std::span<const std::string> arguments) {
  if (arguments.empty() || !IsPython(arguments.front())) return {};
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") return i + 1 < arguments.size() ? arguments[i + 1] : std::string();
    if (argument == "-") return {};
    if (!argument.starts_with('-')) return argument;
    if (argument == "--check-hash-based-pycs") ++i;
    if (argument.starts_with("--")) continue;
    const std::size_t letter = argument.find_first_of("cmWX", 1);
    if (letter == std::string::npos) continue;
    const bool joined = letter + 1 < argument.size();
    if (argument[letter] == 'c' || argument[letter] == 'm') {
      const std::string value = joined ? argument.substr(letter + 1) : i + 1 < arguments.size() ? arguments[i + 1] : "";
      return std::string("-") + argument[letter] + " " + value;
    }
    if (!joined) ++i;
  }
  return {};
}

std::uint64_t ProgramFingerprint() {
  std::string script;
  try {
    script = Absolute(ScriptOf(ArgumentsOfThisProcess()));
  } catch (const std::exception&) {  // /proc is not there: the executable alone must do
  }
  const std::uint64_t hash = XXH3_64bits_withSeed(script.data(), script.size(), MainModule());
  return hash != 0 ? hash : 1;
}

namespace {

constexpr std::uintmax_t kLargestSettings = std::uintmax_t{1} << 20;  // files that are larger hold data

// What `value` names, or the value itself: a number has a point too.
enum class Names { kNothing, kAFile, kSettings };

Names WhatIsNamed(const std::string& value) {
  const std::filesystem::path path(value);
  static constexpr std::string_view kSettings[] = {".py", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf"};
  const std::string extension = path.extension().string();
  if (std::find(std::begin(kSettings), std::end(kSettings), extension) != std::end(kSettings)) return Names::kSettings;
  if (value.find('/') != std::string::npos) return Names::kAFile;
  return extension.size() > 1 && std::isalpha(static_cast<unsigned char>(extension[1])) ? Names::kAFile
                                                                                        : Names::kNothing;
}

std::string ContentOf(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kLargestSettings) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::uint64_t ConfigurationOf(std::span<const std::string> arguments) {
  std::uint64_t hash = 1;
  const auto add = [&](std::string_view text) { hash = XXH3_64bits_withSeed(text.data(), text.size(), hash); };
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string value = equals == std::string::npos ? argument : argument.substr(equals + 1);
    const Names names = WhatIsNamed(value);
    if (names == Names::kSettings) add(ContentOf(value));
    add(names == Names::kNothing ? argument : argument.substr(0, argument.size() - value.size()));
  }
  return hash != 0 ? hash : 1;
}

std::uint64_t ProgramConfiguration() {
  std::vector<std::string> arguments;
  try {
    arguments = ArgumentsOfThisProcess();
    if (!arguments.empty()) arguments.erase(arguments.begin());  // the program is the fingerprint's
    if (const char* processes = std::getenv("WORLD_SIZE")) arguments.push_back(processes);
    return ConfigurationOf(arguments);
  } catch (const std::exception&) {  // /proc is not there, or a file that cannot be read
  }
  return 1;
}

}  // namespace stalloc::runtime
