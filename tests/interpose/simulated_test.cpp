// libstalloc.so itself, all layers of it, under the same programs, over the simulated device: what holds without it
// holds with it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <tuple>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct OverTheSimulatedDevice : testing::TestWithParam<const char*> {};

TEST_P(OverTheSimulatedDevice, HoldsWithoutTheShim) {
  const Outcome outcome = RunProgram({Program(GetParam())}, Simulated());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(OverTheSimulatedDevice, HoldsWithTheShim) {
  const Outcome outcome = RunProgram({Program(GetParam())}, Served());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  // One line in the end, from this process alone.
  const auto summary = outcome.output.find(" online, ");
  EXPECT_NE(summary, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find(" online, ", summary + 1), std::string::npos) << outcome.output;
}

TEST_P(OverTheSimulatedDevice, HoldsWithTheShimTurnedOff) {
  Environment environment = Served();
  environment["STALLOC_DISABLE"] = "1";
  const Outcome outcome = RunProgram({Program(GetParam())}, environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
}

INSTANTIATE_TEST_SUITE_P(Programs, OverTheSimulatedDevice,
                         testing::Values("runtime_calls", "runtime_calls_static", "runtime_calls_per_thread",
                                         "runtime_calls_static_per_thread", "driver_calls_linked", "entry_point",
                                         "late_free", "exceptions", "threads", "fork", "runtime_api",
                                         "runtime_api_static", "addresses", "captures", "captures_end", "contexts",
                                         "callbacks", "cancelled"),
                         [](const auto& program) { return std::string(program.param); });

TEST(Simulated, MemoryIsUsableAndNeverReusedTooEarly) {
  const Outcome plain = RunProgram({Program("simulated")}, Simulated());
  EXPECT_EQ(plain.exit_code, 0) << plain.output;
  const Outcome served = RunProgram({Program("simulated"), "served"}, Served());
  EXPECT_EQ(served.exit_code, 0) << served.output;
}

// empty_cache(): a synchronisation, then a trim. One trim is enough.
TEST(Simulated, ATrimAfterASynchronisationGivesEverythingBack) {
  const Outcome plain = RunProgram({Program("trim")}, Simulated());
  EXPECT_EQ(plain.exit_code, 0) << plain.output;
  const Outcome served = RunProgram({Program("trim")}, Served());
  EXPECT_EQ(served.exit_code, 0) << served.output;
}

// Preloads that people have beside this one, as far as they are here; before it and after it.
TEST(Simulated, BesideOtherPreloads) {
#ifdef STALLOC_SANITIZER_LIBRARY
  GTEST_SKIP() << "a sanitizer's own library takes the place of the others' functions";
#endif
  std::vector<std::string> others = {STALLOC_COUNTING_PRELOAD};
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/", "/usr/lib/"}) {
    for (const char* name : {"libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libmimalloc.so.2",
                             "libasan.so.8", "libasan.so.6"}) {
      if (std::filesystem::exists(std::string(folder) + name)) others.push_back(std::string(folder) + name);
    }
  }
  for (const std::string& other : others) {
    for (const bool first : {true, false}) {
      Environment environment = Served();
      environment["LD_PRELOAD"] = first ? other + ":" STALLOC_LIBRARY : STALLOC_LIBRARY ":" + other;
      // The sanitizer wants to be first, and would report the programs' own leaks.
      environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0";
      for (const std::vector<std::string>& command :
           std::vector<std::vector<std::string>>{{Program("simulated"), "served"},
                                                 {Program("runtime_api")},
                                                 {Program("runtime_api_static")},
                                                 {Program("driver_calls"), "dlsym"},
                                                 {Program("late_free")},
                                                 {Program("threads")},
                                                 {Program("fork")}}) {
        const Outcome outcome = RunProgram(command, environment);
        EXPECT_EQ(outcome.exit_code, 0) << other << (first ? " first, " : " second, ") << command[0] << ": "
                                        << outcome.output;
        EXPECT_NE(outcome.output.find(" online, "), std::string::npos) << other << ", " << command[0];
      }
      // In processes that have nothing to do with CUDA neither is noticed.
      EXPECT_EQ(RunProgram({"sh", "-c", "echo a | cat"}, environment).output, "a\n") << other;
    }
  }
}

struct TwoDevices : testing::TestWithParam<const char*> {
  static Environment With(Environment environment) {
    environment["SIMCUDA_DEVICES"] = "2";
    if (std::string(GetParam()).find("refused") != std::string::npos) environment["SIMCUDA_PEERS"] = "0";
    return environment;
  }
};

TEST_P(TwoDevices, HoldWithoutTheShim) {
  for (const char* build : {"peers", "peers_per_thread"}) {
    const Outcome outcome = RunProgram({Program(build), GetParam()}, With(Simulated()));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

TEST_P(TwoDevices, HoldWithTheShim) {
  for (const char* build : {"peers", "peers_per_thread"}) {
    const Outcome outcome = RunProgram({Program(build), GetParam(), "served"}, With(Served()));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(" online, "), std::string::npos) << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Peers, TwoDevices,
                         testing::Values("context", "pool", "refused", "copies", "streams", "freed", "host", "rows",
                                         "rows_refused", "elsewhere", "elsewhere_refused", "one_call", "host_refused",
                                         "host_peers", "arrays", "arrays_refused", "array_rows"),
                         [](const auto& part) { return std::string(part.param); });

TEST(Simulated, WhichDeviceIsCurrentIsTheDriversOwnAnswer) {
  const auto with_two_devices = [](Environment environment) {
    environment["SIMCUDA_DEVICES"] = "2";
    return environment;
  };
  const Outcome plain = RunProgram({Program("current_device")}, with_two_devices(Simulated()));
  EXPECT_EQ(plain.exit_code, 0) << plain.output;
  const Outcome served = RunProgram({Program("current_device"), "served"}, with_two_devices(Served()));
  EXPECT_EQ(served.exit_code, 0) << served.output;
}

// Known as living for ever, it would be waited for with every block that is no context's own.
TEST(Simulated, APrimaryContextThatEndsBeforeAnythingIsServedIsForgotten) {
  for (const char* end : {"release", "reset"}) {
    const Outcome outcome = RunProgram({Program("contexts"), end}, Served());
    EXPECT_EQ(outcome.exit_code, 0) << end << ": " << outcome.output;
  }
}

// Beside a capture the driver would be left to judge them.
TEST(Simulated, RequestsAfterACaptureThatEndedWithItsStreamOrContextAreServed) {
  const Outcome outcome = RunProgram({Program("captures_end")}, Served());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(" online, 0 passed through"), std::string::npos) << outcome.output;
}

// By the mode of the capture, by who captures, by whether the request is the first one, and by what is asked for: 72
// processes, whose answers have to be the driver's.
TEST(Simulated, ARequestDuringACaptureIsAnsweredAsWithoutTheShim) {
  const Outcome plain = RunProgram({Program("captures_first")}, Simulated());
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  ASSERT_EQ(CountOf(plain.output, "row capture_"), 72u) << plain.output;
  Environment environment = Served();
  environment["STALLOC_LOG"] = "error";
  environment["STALLOC_SUMMARY"] = "0";
  const Outcome served = RunProgram({Program("captures_first")}, environment);
  EXPECT_EQ(served.exit_code, 0);
  EXPECT_EQ(served.output, plain.output);
}

// One failure that passes by, of each call that is made when a device's first request comes.
TEST(Simulated, ADeviceThatCouldNotBeServedIsTriedAgain) {
  for (const char* function :
       {"cuMemGetInfo", "cuDeviceGetAttribute", "cuMemGetAllocationGranularity", "cuMemAddressReserve",
        "cuDeviceGetCount", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (const char* code : {"2", "900", "999"}) {
      EXPECT_EQ(RunProgram({Program("start_fails"), "cuDeviceGetName", code}, Simulated()).exit_code, 0);
      const Outcome served = RunProgram({Program("start_fails"), function, code}, Served());
      EXPECT_EQ(served.exit_code, 0) << served.output;
      EXPECT_NE(served.output.find(" online, "), std::string::npos) << function << " " << code << ": " << served.output;
      EXPECT_LE(CountOf(served.output, "is not served"), 1u) << served.output;
    }
  }
}

TEST(Simulated, WhatIsCapturedOrdersNothing) {
  for (Environment environment : {Simulated(), Served()}) {
    environment["SIMCUDA_SEED"] = "0";
    const Outcome outcome = RunProgram({Program("captures_order")}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

// Memory that one context works on and another wants: by kinds of contexts, and by what is done.
struct TwoContexts : testing::TestWithParam<std::tuple<std::string, std::string>> {
  static Outcome Run(Environment environment, const char* seed) {
    environment["SIMCUDA_SEED"] = seed;
    return RunProgram({Program("context_order"), std::get<0>(GetParam()), std::get<1>(GetParam())}, environment);
  }
};

TEST_P(TwoContexts, HoldWithoutTheShim) {
  const Outcome outcome = Run(Simulated(), "0");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Seed 0: nothing executes before it is waited for. Others: in some order.
TEST_P(TwoContexts, HoldWithTheShim) {
  for (const char* seed : {"0", "1", "2", "3"}) {
    const Outcome outcome = Run(Served(), seed);
    EXPECT_EQ(outcome.exit_code, 0) << "seed " << seed << ": " << outcome.output;
    EXPECT_NE(outcome.output.find(" online, 0 passed through"), std::string::npos) << outcome.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Order, TwoContexts,
                         testing::Combine(testing::Values("primary_made", "made_primary", "both_made", "green"),
                                          testing::Values("default", "legacy", "per_thread", "freed_elsewhere", "made",
                                                          "no_stream", "beside_waiting", "used_elsewhere", "trim",
                                                          "short", "capture", "threads", "other_thread", "end",
                                                          "end_at_work", "random")),
                         [](const auto& part) { return std::get<0>(part.param) + "_" + std::get<1>(part.param); });

// The program fills the device, probes as cuDNN does, asks for more than there is, frees and goes on.
TEST(Simulated, OutOfMemoryIsReportedOnceAndSurvived) {
  Environment plain = Simulated();
  plain["SIMCUDA_MEMORY"] = "512MiB";
  EXPECT_EQ(RunProgram({Program("full_device")}, plain).exit_code, 0);

  for (const char* limit : {"", "300MiB"}) {
    Environment environment = Served();
    environment["SIMCUDA_MEMORY"] = "512MiB";
    environment["STALLOC_MEMORY_LIMIT"] = limit;
    const Outcome outcome = RunProgram({Program("full_device")}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(CountOf(outcome.output, "what would help"), 1u) << outcome.output;
    EXPECT_EQ(CountOf(outcome.output, "largest call sites"), 1u) << outcome.output;
    // Where the memory is, by the function that took it.
    EXPECT_NE(outcome.output.find("FillTheDevice"), std::string::npos) << outcome.output;
    EXPECT_LE(CountOf(outcome.output, "out of memory on device 0"), 2u) << "a probe floods standard error";
    // What was refused went nowhere.
    EXPECT_NE(outcome.output.find(", 0 passed through; "), std::string::npos) << outcome.output;
    if (*limit != '\0') {
      EXPECT_NE(outcome.output.find("a higher STALLOC_MEMORY_LIMIT"), std::string::npos) << outcome.output;
    }

    environment["STALLOC_LOG"] = "error";
    EXPECT_EQ(CountOf(RunProgram({Program("full_device")}, environment).output, "out of memory on"), 0u);
  }
}

TEST(Simulated, ARequestThatIsLargerThanTheDeviceIsSaidToBe) {
  Environment environment = Served();
  environment["SIMCUDA_MEMORY"] = "512MiB";
  const Outcome outcome = RunProgram({Program("full_device"), "too-large"}, environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("1.00 TiB requested by cuMemAllocAsync, more than the device's 512.00 MiB in all\n"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "what would help"), 0u) << outcome.output;
}

// The plan of a training loop takes up more than it must, which is of no matter until somebody else needs the memory.
TEST(Simulated, ThePlanGivesWayWhenMemoryIsShort) {
  Environment environment = Served();
  environment["SIMCUDA_MEMORY"] = "1GiB";
  environment["STALLOC_GROWTH"] = "1.3";
  environment["STALLOC_LOG"] = "info";
  const Outcome ample = RunProgram({Program("pressure")}, environment);
  EXPECT_EQ(ample.exit_code, 0) << ample.output;
  EXPECT_EQ(CountOf(ample.output, "memory is short"), 0u) << ample.output;
  const std::string statistics = testing::TempDir() + "stalloc-pressure-" + std::to_string(::getpid()) + ".json";
  environment["STALLOC_STATS"] = statistics;
  environment["STALLOC_STATS_SIGNAL"] = "SIGUSR2";
  const Outcome pressed = RunProgram({Program("pressure"), "300", statistics}, environment);
  std::filesystem::remove(statistics);
  EXPECT_EQ(pressed.exit_code, 0) << pressed.output;
  EXPECT_EQ(CountOf(pressed.output, "memory is short: from the next iteration on"), 1u) << pressed.output;
}

// The program signals itself: without a handler of its own it gets a line, with one stalloc keeps out of the way.
TEST(Simulated, StatisticsOnASignal) {
  Environment environment = Served();
  environment["STALLOC_STATS_SIGNAL"] = "SIGUSR2";
  const Outcome asked = RunProgram({Program("signalled")}, environment);
  EXPECT_EQ(asked.exit_code, 0) << asked.output;
  EXPECT_EQ(CountOf(asked.output, "peak live"), 2u) << asked.output;
  EXPECT_NE(asked.output.find("planned, 1 online"), std::string::npos) << "the line in between: " << asked.output;

  const Outcome handled = RunProgram({Program("signalled"), "handled"}, environment);
  EXPECT_EQ(handled.exit_code, 0) << handled.output;
  EXPECT_EQ(CountOf(handled.output, "peak live"), 1u) << handled.output;
  EXPECT_EQ(CountOf(handled.output, "STALLOC_STATS_SIGNAL has no effect"), 1u) << handled.output;

  const Outcome replaced = RunProgram({Program("signalled"), "replaced"}, environment);
  EXPECT_EQ(replaced.exit_code, 0) << replaced.output;
  EXPECT_EQ(CountOf(replaced.output, "peak live"), 1u) << replaced.output;

  // A forked child ends by the signal, as it would without stalloc; and without the setting so does the program.
  EXPECT_EQ(RunProgram({Program("signalled"), "forked"}, environment).exit_code, 0);
  EXPECT_EQ(RunProgram({Program("signalled")}, Served()).exit_code, 128 + 12);
}

TEST(Simulated, WhatWasServedBeforeAResetCounts) {
  EXPECT_EQ(RunProgram({Program("reset")}, Simulated()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("reset")}, Served());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("peak live 3.00 MiB"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find(" 2 online, "), std::string::npos) << outcome.output;
}

// How the last line reads for programs in which there is nothing to plan, and for one in which there is.
TEST(Simulated, TheSummarySaysWhyNothingWasPlanned) {
  const auto last_line = [](const char* pattern) {
    const Outcome outcome = RunProgram({Program("patterns"), pattern}, Served());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output.substr(std::min(outcome.output.find("peak live"), outcome.output.size()));
  };
  EXPECT_NE(last_line("few").find("; not planned: too few requests to learn from\n"), std::string::npos);
  EXPECT_NE(last_line("random").find("; not planned: no repeating iteration was found\n"), std::string::npos);
  EXPECT_NE(last_line("dynamic").find("; not planned: iterations differ too much\n"), std::string::npos);
  EXPECT_EQ(last_line("static").find("planned: "), std::string::npos);
}

// A launcher asks CUDA for nothing itself: what its children have written is what the run has written, and a plan that
// they had no use for is not missed.
TEST(Simulated, OnlyARunThatWasNotServedMissesTheFilesItWasAskedFor) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("asked_files_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  Environment environment = Served();
  environment["STALLOC_STATS"] = folder / "stats.%p.json";
  environment["STALLOC_PLAN"] = folder / "of.plan";
  const std::string missed = "nothing was written into";
  const Outcome unserved = RunProgram({"true"}, environment);
  EXPECT_NE(unserved.output.find(missed), std::string::npos) << unserved.output;
  EXPECT_NE(unserved.output.find("STALLOC_PLAN"), std::string::npos) << unserved.output;

  const Outcome launched = RunProgram({"bash", "-c", Program("late_free") + "; exit 0"}, environment);
  EXPECT_NE(launched.output.find(" online, "), std::string::npos) << launched.output;
  EXPECT_EQ(launched.output.find(missed), std::string::npos) << launched.output;

  environment["STALLOC_STATS"] = "/dev/null";
  environment["STALLOC_TRACE"] = folder / "of.trace";
  EXPECT_NE(RunProgram({"true"}, environment).output.find("STALLOC_TRACE"), std::string::npos)
      << "a device tells nothing of what was written into it";

  environment.erase("STALLOC_STATS");
  environment.erase("STALLOC_TRACE");
  const Outcome unplanned = RunProgram({"bash", "-c", Program("late_free") + "; exit 0"}, environment);
  EXPECT_NE(unplanned.output.find("or did nothing that could be planned"), std::string::npos) << unplanned.output;
  environment["STALLOC_PLANNING"] = "0";
  EXPECT_EQ(RunProgram({"true"}, environment).output, "") << "no plan was to be expected";
  std::filesystem::remove_all(folder);
}

TEST(Simulated, EveryRouteOfADriverProgram) {
  for (const char* route : {"dlsym", "four", "five"}) {
    const Outcome outcome = RunProgram({Program("driver_calls"), route}, Served());
    EXPECT_EQ(outcome.exit_code, 0) << route << ": " << outcome.output;
    EXPECT_NE(outcome.output.find("3 online, 0 passed through"), std::string::npos) << route << ": " << outcome.output;
  }
}

}  // namespace
}  // namespace stalloc::interpose
