#include "runtime/base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace stalloc::runtime {
namespace {

// Runs `body` in a child whose standard error is a pipe and returns what it wrote there.
template <typename Body>
std::string WhatAChildLogs(Body body, int* status) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, status, 0), child);
  return text;
}

void ForgetRank() {
  for (const char* name : {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) ::unsetenv(name);
}

// The logger reads the rank at its first line: these children begin anew, whatever this process has logged already.
TEST(Log, ALineNamesProcessRankAndLevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_rank = [] {
    ForgetRank();
    ::setenv("RANK", "3", 1);
    LogWarn("no {} braces %s percent");
    ::_exit(0);
  };
  EXPECT_EXIT(with_rank(), testing::ExitedWithCode(0),
              "stalloc\\[[0-9]+ r3\\] warning: no [{][}] braces %s percent\n$");
  const auto without_rank = [] {
    ForgetRank();
    LogError("first");
    LogLine("second");
    ::_exit(0);
  };
  EXPECT_EXIT(without_rank(), testing::ExitedWithCode(0),
              "stalloc\\[[0-9]+\\] error: first\nstalloc\\[[0-9]+\\] second\n$");
}

TEST(Log, TheLevelDecidesWhatIsSaid) {
  int status = 0;
  const std::string text = WhatAChildLogs(
      [] {
        LogInfo("hidden");
        SetLogLevel(LogLevel::kDebug);
        LogDebug("shown");
        SetLogLevel(LogLevel::kOff);
        LogError("hidden too");
        LogLine("the summary");
      },
      &status);
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
  EXPECT_NE(text.find("shown"), std::string::npos) << text;
  EXPECT_NE(text.find("the summary"), std::string::npos) << text;
}

TEST(Log, ErrnoAndABrokenPipeAreNotTheProgramsBusiness) {
  int status = 0;
  WhatAChildLogs(
      [] {
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(2);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        ::signal(SIGPIPE, SIG_DFL);
        errno = 42;
        LogError("nobody reads this");
        if (errno != 42) ::_exit(3);
        sigset_t pending;
        sigpending(&pending);
        if (sigismember(&pending, SIGPIPE) != 0) ::_exit(4);
      },
      &status);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Log, LinesOfSeveralThreadsStayWhole) {
  int status = 0;
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const std::string text = WhatAChildLogs(
      [] {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
          threads.emplace_back([] {
            for (int i = 0; i < kLines; ++i) LogLine("abcdefghijklmnopqrstuvwxyz");
          });
        }
        for (std::thread& thread : threads) thread.join();
      },
      &status);
  int lines = 0;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++lines;
    EXPECT_TRUE(text.substr(begin, end - begin).ends_with("] abcdefghijklmnopqrstuvwxyz"));
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

}  // namespace
}  // namespace stalloc::runtime
