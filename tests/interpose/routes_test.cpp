// By whichever route a program reaches CUDA, a request is served once, what the program sees is what it sees without
// the shim, and what the allocator passes goes to the driver.
#include <gtest/gtest.h>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

// Served and passed requests of runtime_calls.c and driver_calls.c: what stands in the programs.
void ExpectRuntimeCallsServed(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("start"), 1);
  EXPECT_EQ(outcome.Count("allocate.served"), 6);
  EXPECT_EQ(outcome.Count("free.served"), 6);
  EXPECT_EQ(outcome.Count("passed.allocate"), 2);
  EXPECT_EQ(outcome.Count("passed.free"), 2);
  EXPECT_EQ(outcome.Count("finish"), 1);
}

struct RuntimeCalls : testing::TestWithParam<const char*> {};

TEST_P(RuntimeCalls, HoldWithoutTheShim) {
  const Outcome outcome = RunProgram({Program(GetParam())}, Plain());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(RuntimeCalls, AreServedOnce) { ExpectRuntimeCallsServed(RunProgram({Program(GetParam())}, Preloaded())); }

TEST_P(RuntimeCalls, AreServedThoughTheResolverGivesOtherPointers) {
  Environment environment = Preloaded();
  environment["FAKE_CUDA_OTHER_POINTERS"] = "1";
  ExpectRuntimeCallsServed(RunProgram({Program(GetParam())}, environment));
}

TEST_P(RuntimeCalls, AreServedBeneathARuntimeLibraryThatSetsTheContextLate) {
  Environment environment = Preloaded();
  environment["FAKE_CUDART_VERSION"] = "11080";
  ExpectRuntimeCallsServed(RunProgram({Program(GetParam())}, environment));
}

TEST_P(RuntimeCalls, FollowTheStreamThatTheProgramMeant) {
  const Outcome outcome = RunProgram({Program(GetParam())}, Preloaded());
  const bool per_thread = std::string(GetParam()).find("per_thread") != std::string::npos;
  EXPECT_EQ(outcome.Count("allocate.stream0"), per_thread ? 0 : 2);
  EXPECT_EQ(outcome.Count("allocate.stream2"), per_thread ? 2 : 0);
  EXPECT_EQ(outcome.Count("allocate.synchronous"), 4);
  EXPECT_EQ(outcome.Count("free.synchronous"), 4);
}

INSTANTIATE_TEST_SUITE_P(Builds, RuntimeCalls,
                         testing::Values("runtime_calls", "runtime_calls_static", "runtime_calls_per_thread",
                                         "runtime_calls_static_per_thread"),
                         [](const auto& build) { return std::string(build.param); });

struct DriverCalls : testing::TestWithParam<const char*> {
  static std::vector<std::string> Command() {
    const std::string route = GetParam();
    return {Program(route == "linked" ? "driver_calls_linked" : "driver_calls"), route};
  }
};

TEST_P(DriverCalls, HoldWithoutTheShim) {
  const Outcome outcome = RunProgram(Command(), Plain());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(DriverCalls, AreServedOnce) {
  const Outcome outcome = RunProgram(Command(), Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("allocate.served"), 2);
  EXPECT_EQ(outcome.Count("free.served"), 2);
  EXPECT_EQ(outcome.Count("free.refused"), 1);
  EXPECT_EQ(outcome.Count("passed.allocate"), 1);
  EXPECT_EQ(outcome.Count("passed.free"), 1);
}

INSTANTIATE_TEST_SUITE_P(Routes, DriverCalls, testing::Values("linked", "dlsym", "four", "five"),
                         [](const auto& route) { return std::string(route.param); });

TEST(EntryPoint, FromTheRuntimeLibraryIsTheWrapper) {
  EXPECT_EQ(RunProgram({Program("entry_point")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("entry_point")}, Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("allocate.served"), 1);
  EXPECT_EQ(outcome.Count("free.served"), 1);
}

TEST(Plugin, WhoseRuntimeLibraryIsInNoScopeButItsOwn) {
  EXPECT_EQ(RunProgram({Program("plugin_host"), STALLOC_PLUGIN}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("plugin_host"), STALLOC_PLUGIN}, Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("allocate.served"), 1);
  EXPECT_EQ(outcome.Count("passed.allocate"), 1);
}

TEST(Answers, AreAboutTheServedBlock) {
  const Outcome outcome = RunProgram({Program("answers")}, Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("reset.used"), 1);
  EXPECT_EQ(outcome.Count("reset.reserved"), 0);
  EXPECT_EQ(outcome.Count("trim"), 1);
  EXPECT_EQ(outcome.Count("passed.allocate"), 2);
}

TEST(Observed, IsWhatTheDriverAccepted) {
  EXPECT_EQ(RunProgram({Program("observed")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("observed")}, Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("capture.began"), 1);
  EXPECT_EQ(outcome.Count("capture.ended"), 2);  // and with the stream, if it had not ended
  EXPECT_EQ(outcome.Count("event.recorded.stream"), 1);
  EXPECT_EQ(outcome.Count("event.recorded.stream0"), 1);
  EXPECT_EQ(outcome.Count("stream.waits.stream"), 1);
  EXPECT_EQ(outcome.Count("event.destroyed"), 1);
  EXPECT_EQ(outcome.Count("stream.destroyed"), 1);
  EXPECT_EQ(outcome.Count("context.made"), 3);
  EXPECT_EQ(outcome.Count("context.ends"), 3);
  EXPECT_EQ(outcome.Count("context.destroyed"), 3);
  EXPECT_EQ(outcome.Count("context.left"), 2);
  EXPECT_EQ(outcome.Count("allocate.stream"), 1);
  EXPECT_EQ(outcome.Count("free.stream1"), 1);
  EXPECT_EQ(outcome.Count("allocate.stream2"), 1);
  EXPECT_EQ(outcome.Count("free.stream0"), 1);
}

TEST(OutOfMemory, IsTriedAgainOnce) {
  EXPECT_EQ(RunProgram({Program("out_of_memory")}, Plain()).exit_code, 1);  // the driver alone refuses the first
  const Outcome outcome = RunProgram({Program("out_of_memory")}, Preloaded());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("release"), 3);
  EXPECT_EQ(outcome.Count("passed.allocate"), 2);
  EXPECT_EQ(outcome.Count("allocate.refused"), 3);
  // The one that was refused twice is told of; those that the allocator refused it tells of itself.
  EXPECT_EQ(outcome.Count("out_of_memory.0.cuMemAlloc_v2.1007"), 1);
}

}  // namespace
}  // namespace stalloc::interpose
