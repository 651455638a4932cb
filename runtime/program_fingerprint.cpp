#include "runtime/program_fingerprint.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "module_map.h"

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

}  // namespace stalloc::runtime
