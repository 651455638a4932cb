// libstalloc.so as the loader and the program's other libraries see it, read with nm and readelf.
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

std::vector<std::string> Lines(const std::vector<std::string>& command) {
  const Outcome outcome = RunProgram(command, Plain());
  EXPECT_EQ(outcome.exit_code, 0) << command[0] << ": " << outcome.output;
  std::vector<std::string> lines;
  std::istringstream text(outcome.output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string LastWord(const std::string& line) { return line.substr(line.rfind(' ') + 1); }

TEST(Exports, AreTheTableDlsymAndGetenv) {
  std::set<std::string> expected = {
      "dlsym",
      "getenv",
#define STALLOC_DRIVER(name, base, version, handling) #name,
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) #name,
#define STALLOC_RUNTIME(name, declaration, handling) #name,
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) #name,
#include "entry_points.def"
  };
  std::set<std::string> exported;
  for (const std::string& line : Lines({"nm", "-D", "--defined-only", STALLOC_LIBRARY}))
    if (const std::string name = LastWord(line); !name.starts_with("stalloc_")) exported.insert(name);
  EXPECT_EQ(exported, expected);
}

TEST(Needed, IsTheCLibraryOnly) {
  const std::set<std::string> allowed = {
      "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
  std::size_t needed = 0;
  for (const std::string& line : Lines({"readelf", "-d", STALLOC_LIBRARY})) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const auto open = line.find('['), close = line.find(']');
    const std::string name = line.substr(open + 1, close - open - 1);
    EXPECT_EQ(allowed.count(name), 1u) << name;
    ++needed;
  }
  EXPECT_GT(needed, 0u);
}

TEST(Needed, NoUnwinderAndNoCxxSymbolComesFromOutside) {
  for (const std::string& line : Lines({"nm", "-D", "--undefined-only", STALLOC_LIBRARY})) {
    const std::string name = LastWord(line);
    EXPECT_FALSE(name.starts_with("_Unwind_") || name.starts_with("unw_")) << name;
    // What stays undefined of C++ must be weak, with nothing lost if nobody has it.
    if (name.starts_with("_Z") || name.starts_with("__cxa_")) {
      const bool of_libc = name.starts_with("__cxa_finalize") || name.starts_with("__cxa_atexit") ||
                           name.starts_with("__cxa_thread_atexit_impl");
      EXPECT_TRUE(of_libc || line.find(" w ") != std::string::npos) << line;
    }
  }
}

TEST(Needed, AnOldEnoughCLibraryWillDo) {
  // Ubuntu 22.04 has glibc 2.35.
  std::pair<int, int> newest = {0, 0};
  std::string newest_line;
  for (const std::string& line : Lines({"readelf", "-V", "-W", STALLOC_LIBRARY})) {
    const auto at = line.find("Name: GLIBC_");
    if (at == std::string::npos) continue;
    std::pair<int, int> version = {0, 0};
    char dot = 0;
    std::istringstream(line.substr(at + 12)) >> version.first >> dot >> version.second;
    if (version > newest) newest = version, newest_line = line;
  }
  EXPECT_GT(newest.first, 0);
  if (std::string(::gnu_get_libc_version()) > "2.36") {
    GTEST_SKIP() << "built against glibc " << ::gnu_get_libc_version() << ", whose headers choose newer functions; "
                 << "a library for older machines is built on Debian 12 or Ubuntu 22.04";
  }
  EXPECT_LE(newest, (std::pair<int, int>{2, 35})) << newest_line;
}

TEST(Flags, TheLibraryIsNeverUnloaded) {
  const auto lines = Lines({"readelf", "-d", "-W", STALLOC_LIBRARY});
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find("NODELETE") != std::string::npos; }));
}

}  // namespace
}  // namespace stalloc::interpose
