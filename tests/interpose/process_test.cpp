// The life of processes under the preload: those that never touch CUDA, those that end in odd ways, and the breakages
// that other shims of this kind are known for.
#include <gtest/gtest.h>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

bool Here(const char* program) {
  return RunProgram({"sh", "-c", std::string("command -v ") + program}, Plain()).exit_code == 0;
}

TEST(WithoutCuda, ProgramsRunAsEver) {
  const std::vector<std::vector<std::string>> commands = {
      {"true"}, {"ls", "/"}, {"sh", "-c", "echo a | cat; exit 3"}, {"bash", "-c", "echo $BASH_VERSION; (exit 4)"}};
  for (const auto& command : commands) {
    const Outcome plain = RunProgram(command, Plain());
    const Outcome preloaded = RunProgram(command, Preloaded());
    EXPECT_EQ(preloaded.exit_code, plain.exit_code) << command[0];
    EXPECT_EQ(preloaded.output, plain.output) << command[0];
    EXPECT_TRUE(preloaded.counts.empty()) << "the allocator was asked by " << command[0];
  }
}

TEST(WithoutCuda, LookingForItFindsNone) {
  EXPECT_EQ(RunProgram({Program("resolvers")}, Plain()).output, "");
  const Outcome outcome = RunProgram({Program("resolvers")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Loading, TheLibraryNeedsNothingThatIsNotThere) {
  // Where no CUDA library is on the search path, the preload loads and stays silent.
  Environment environment = Preloaded();
  environment.erase("LD_LIBRARY_PATH");
  const Outcome outcome = RunProgram({"true"}, environment);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "");
}

TEST(Loading, AProgramWithoutADriverIsToldSoByCudaItself) {
  Environment plain = Plain();
  plain["LD_LIBRARY_PATH"] = STALLOC_FAKE_RUNTIME_DIRECTORY;
  Environment preloaded = Preloaded();
  preloaded["LD_LIBRARY_PATH"] = STALLOC_FAKE_RUNTIME_DIRECTORY;
  for (const char* program : {"without_driver", "without_driver_static"}) {
    EXPECT_EQ(RunProgram({Program(program)}, plain).exit_code, 0);
    const Outcome outcome = RunProgram({Program(program)}, preloaded);
    EXPECT_EQ(outcome.exit_code, 0) << program;
    EXPECT_EQ(outcome.output, "") << program;
    EXPECT_TRUE(outcome.counts.empty()) << program;
  }
}

TEST(Loading, LookUpsBeforeTheConstructor) {
  const Outcome outcome = RunProgram({Program("early_caller")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Next, SeesItsOwnCaller) {
  EXPECT_EQ(RunProgram({Program("next_caller")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("next_caller")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Disabled, NothingHappens) {
  Environment environment = Preloaded();
  environment["STALLOC_DISABLE"] = "1";
  for (const char* program :
       {"runtime_calls", "runtime_calls_static", "resolvers", "driver_calls_linked", "entry_point"}) {
    const Outcome outcome = RunProgram({Program(program)}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << program << ": " << outcome.output;
    EXPECT_EQ(outcome.output, "") << program;
    EXPECT_TRUE(outcome.counts.empty()) << program;
  }
  const Outcome settings =
      RunProgram({"sh", "-c", "echo $PYTORCH_ALLOC_CONF$XLA_PYTHON_CLIENT_ALLOCATOR"}, environment);
  EXPECT_EQ(settings.output, "\n");
}

TEST(Refused, TheProcessRunsAsIfTheShimWereNotThere) {
  Environment environment = Preloaded();
  environment["PROBE_REFUSE"] = "1";
  for (const char* program : {"runtime_calls", "runtime_calls_static", "driver_calls_linked"}) {
    const Outcome outcome = RunProgram({Program(program)}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << program << ": " << outcome.output;
  }
}

TEST(Refused, AFunctionThatTheDriverLacksIsNamedOnce) {
  Environment environment = Preloaded();
  environment["LD_LIBRARY_PATH"] = STALLOC_OLD_FAKE_DIRECTORY ":" STALLOC_FAKE_RUNTIME_DIRECTORY;
  const Outcome outcome = RunProgram({Program("driver_calls"), "dlsym"}, environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.counts.empty()) << "the allocator was started without being able to cover every route";
  EXPECT_NE(outcome.output.find("cuMemAllocAsync_ptsz"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("stalloc["), outcome.output.rfind("stalloc[")) << outcome.output;
}

TEST(Ending, LateDestructorsFree) {
  EXPECT_EQ(RunProgram({Program("late_free")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("late_free")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("finish"), 1);
  EXPECT_GE(outcome.Count("free.served"), 3);
}

TEST(Ending, AForkedChildIsLeftAlone) {
  EXPECT_EQ(RunProgram({Program("fork")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("fork")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("finish"), 1);
  EXPECT_EQ(outcome.Count("allocate.served"), 1);
}

TEST(Threads, ThatAllBeginAtOnceAreAllRight) {
  EXPECT_EQ(RunProgram({Program("threads")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("threads")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("start"), 1);
  // Those that came while another thread was starting the allocator went to the driver.
  EXPECT_GT(outcome.Count("allocate.served"), 0);
  EXPECT_EQ(outcome.Count("allocate.served"), outcome.Count("free.served"));
}

TEST(OtherPreloads, BeforeAndAfter) {
  Environment environment = Preloaded();
  const std::string probe = environment["LD_PRELOAD"];
  for (const bool first : {true, false}) {
    environment["LD_PRELOAD"] = first ? STALLOC_COUNTING_PRELOAD ":" + probe : probe + ":" STALLOC_COUNTING_PRELOAD;
    for (const char* program : {"runtime_calls", "driver_calls_linked"}) {
      const Outcome outcome = RunProgram({Program(program)}, environment);
      EXPECT_EQ(outcome.exit_code, 0) << program << ": " << outcome.output;
      EXPECT_GT(outcome.Count("allocate.served"), 0) << program;
      // One that comes first sees every call; one that comes after sees what is passed to it.
      if (first) {
        EXPECT_NE(outcome.output.find("counted"), std::string::npos) << program;
      }
    }
  }
}

TEST(Exceptions, OfTheProgramAreItsOwn) {
  EXPECT_EQ(RunProgram({Program("exceptions")}, Plain()).exit_code, 0);
  const Outcome outcome = RunProgram({Program("exceptions")}, Preloaded());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.Count("allocate.served"), 42);
}

constexpr char kPrintSettings[] =
    "import os; print(*[os.environ.get(n) for n in ('PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF',"
    "'XLA_PYTHON_CLIENT_ALLOCATOR', 'XLA_PYTHON_CLIENT_PREALLOCATE', 'TF_GPU_ALLOCATOR')])";

// Frameworks are told when they ask; nothing of it stands in the environment, for nobody.
TEST(FrameworkSettings, LeaveTheEnvironmentAlone) {
  if (!Here("python3")) GTEST_SKIP() << "no python3 here";
  Environment environment = Preloaded();
  EXPECT_EQ(RunProgram({"python3", "-c", kPrintSettings}, environment).output, "None None None None None\n");
  environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  EXPECT_EQ(RunProgram({"python3", "-c", kPrintSettings}, environment).output,
            "None expandable_segments:True None None None\n");
}

}  // namespace
}  // namespace stalloc::interpose
