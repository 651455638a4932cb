// Processes whose host runs out of memory, for libstalloc.so alone: each allocation that it asks for is refused in
// turn, once and for good. The program goes on as if the shim were not there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

// In front of the shim stands what refuses it memory.
Environment Refusing(long first, long count) {
  Environment environment = Served();
  environment["LD_PRELOAD"] = STALLOC_FAILING_HOST ":" STALLOC_LIBRARY;
  environment["FAILING_HOST_FIRST"] = std::to_string(first);
  environment["FAILING_HOST_COUNT"] = std::to_string(count);
  return environment;
}

long AllocationsOf(const std::vector<std::string>& command) {
  std::string folder = std::filesystem::temp_directory_path() / "stalloc-host-XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  Environment environment = Refusing(0, 1);
  environment["FAILING_HOST_TOLD"] = folder + "/told";
  const Outcome outcome = RunProgram(command, environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  long count = 0;
  std::ifstream(folder + "/told") >> count;
  std::filesystem::remove_all(folder);
  return count;
}

// Every one up to `all`, or, of many, some everywhere: steps grow with the number.
void SweepEach(const std::vector<std::string>& command, long all) {
  for (const long count : {1L, 0L}) {
    for (long first = 1; first <= all; first += 1 + first / 64) {
      const Outcome outcome = RunProgram(command, Refusing(first, count));
      EXPECT_EQ(outcome.exit_code, 0) << command[0] << ": allocation " << first << (count == 0 ? " and all after" : "")
                                      << ": " << outcome.output;
    }
  }
}

TEST(HostMemory, ThatFailsAtLoadLeavesTheProgramAlone) {
  const long all = AllocationsOf({"true"});
  ASSERT_GT(all, 1) << "nothing was there to fail";
  SweepEach({"true"}, all);
}

TEST(HostMemory, ThatIsGoneAtLoadIsSaidInOneLine) {
  const Outcome outcome = RunProgram({"true"}, Refusing(1, 0));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output,
            "stalloc error: the host is out of memory while the program is loaded: stalloc is off in this process\n");
}

// Starting, serving, learning and the end.
struct HostMemoryOf : testing::TestWithParam<const char*> {};

TEST_P(HostMemoryOf, ARequestThatFailsIsTheDriversToAnswer) {
  const long all = AllocationsOf({Program(GetParam())});
  ASSERT_GT(all, 40) << "nothing was there to fail";
  SweepEach({Program(GetParam())}, all);
}

INSTANTIATE_TEST_SUITE_P(Programs, HostMemoryOf, testing::Values("driver_calls_linked", "captures"),
                         [](const auto& program) { return std::string(program.param); });

}  // namespace
}  // namespace stalloc::interpose
