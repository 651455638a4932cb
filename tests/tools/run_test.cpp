// stalloc run: the command's end is this command's end, and the environment gains what was asked for and loses nothing.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "command.h"

namespace stalloc::tools {
namespace {

// `run` is tested with a harmless library in the place of libstalloc.so: what the preload itself does to processes is
// tested where it is built.
const char* const kHarmless = "libm.so.6";

class RunVerb : public CommandTest {
 protected:
  RunVerb() {
    for (const char* folder : {"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib", "/lib/aarch64-linux-gnu"}) {
      const std::filesystem::path candidate = std::filesystem::path(folder) / kHarmless;
      if (std::filesystem::exists(candidate)) library_ = candidate;
    }
  }
  Ended Run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) const {
    arguments.insert(arguments.begin(), {"run", "--library", library_});
    return RunStalloc(arguments, environment);
  }

  std::string library_;
};

TEST_F(RunVerb, KeepsTheExitCode) {
  EXPECT_EQ(Run({"--", "true"}).exit_code, 0);
  EXPECT_EQ(Run({"--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(Run({"sh", "-c", "exit 200"}).exit_code, 200);
}

TEST_F(RunVerb, KeepsTheSignal) {
  EXPECT_EQ(Run({"--", "sh", "-c", "kill -TERM $$"}).exit_code, 128 + SIGTERM);
  EXPECT_EQ(Run({"--", "sh", "-c", "ulimit -c 0; kill -SEGV $$"}).exit_code, 128 + SIGSEGV);
}

TEST_F(RunVerb, SaysWhatCannotBeRunAsAShellDoes) {
  EXPECT_EQ(Run({"--", "no-such-command-anywhere"}).exit_code, 127);
  EXPECT_EQ(Run({"--", Write("plain.txt", "text")}).exit_code, 126);
}

TEST_F(RunVerb, OptionsBecomeSettings) {
  const Ended ended =
      Run({"--memory-limit=20GiB", "--growth", "1.5", "--", "sh", "-c", "echo $STALLOC_MEMORY_LIMIT $STALLOC_GROWTH"});
  EXPECT_EQ(ended.output, "20GiB 1.5\n") << ended.errors;
}

TEST_F(RunVerb, WhatCouldNotBeWrittenInTheEndIsRefusedInTheBeginning) {
  for (const char* option : {"--stats", "--trace", "--plan"}) {
    const Ended nowhere = Run({option, Path("nowhere/file"), "--", "echo", "run"});
    EXPECT_EQ(nowhere.exit_code, 1) << option << nowhere.errors;
    EXPECT_EQ(nowhere.output, "") << option;
    EXPECT_NE(nowhere.errors.find("nowhere/file: create: "), std::string::npos) << nowhere.errors;
    const Ended taken = Run({option, Write("script.py", "import torch"), "--", "echo", "run"});
    EXPECT_EQ(taken.exit_code, 3) << option << taken.errors;
    EXPECT_NE(taken.errors.find("script.py: holds something else"), std::string::npos) << taken.errors;
  }
  const Ended text = RunStalloc({"run", "--library", Write("lib.so", "text"), "--", "echo", "run"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_EQ(text.output, "");
}

TEST_F(RunVerb, FilesAreMeantFromHere) {
  const Ended ended = Run({"--trace", "x.trace", "--", "sh", "-c", "cd / && echo $STALLOC_TRACE"});
  EXPECT_EQ(ended.output, (std::filesystem::current_path() / "x.trace").string() + "\n");
}

TEST_F(RunVerb, PreloadsGoBeforeWhatIsThere) {
#ifdef STALLOC_SANITIZED
  GTEST_SKIP() << "a sanitized command refuses to start under another preload";
#endif
  const std::string print = "echo $LD_PRELOAD";
  EXPECT_EQ(Run({"--", "sh", "-c", print}, {"LD_PRELOAD="}).output, library_ + "\n");
  EXPECT_EQ(Run({"--", "sh", "-c", print}, {"LD_PRELOAD=libc.so.6"}).output, library_ + ":libc.so.6\n");
  EXPECT_EQ(Run({"--", "sh", "-c", print}, {"LD_PRELOAD=libc.so.6 " + library_}).output, library_ + ":libc.so.6\n");
}

TEST_F(RunVerb, TheCommandsOwnOptionsAndDashesStayItsOwn) {
  EXPECT_EQ(Run({"--", "sh", "-c", "echo $# $1", "sh", "--json", "--"}).output, "2 --json\n");
  EXPECT_EQ(Run({"sh", "-c", "echo $# $1", "sh", "--help", "--", "x"}).output, "2 --help\n");
}

TEST_F(RunVerb, ASignalGoesOnToTheCommand) {
  const std::string marker = Path("marker");
  const std::string script =
      "trap 'echo got > " + marker + "; exit 5' TERM; echo up > " + marker + ".up; while :; do sleep 0.05; done";
  const std::string command = STALLOC_COMMAND;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(command.c_str(), command.c_str(), "run", "--library", library_.c_str(), "--", "sh", "-c", script.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(99);
  }
  for (int i = 0; i < 200 && !std::filesystem::exists(marker + ".up"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_EQ(Read(marker), "got\n");
}

TEST_F(RunVerb, AMissingLibraryIsSaidBeforeAnythingRuns) {
  const Ended ended = RunStalloc({"run", "--library", Path("none.so"), "--", "touch", Path("ran")});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.errors.find("none.so"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("ran")));
}

TEST_F(RunVerb, ThePathOfTheLibraryMustFitLdPreload) {
  const std::string odd = Write("with space.so",
                                "\x7f"
                                "ELF");
  EXPECT_EQ(RunStalloc({"run", "--library", odd, "--", "true"}).exit_code, 1);
}

}  // namespace
}  // namespace stalloc::tools
