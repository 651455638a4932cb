// WriteWholeFile: what is there stays or is replaced as a whole; what cannot be replaced is written into.
#include "planner/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "files.h"

namespace stalloc::planner {
namespace {

std::optional<FileError> Write(const std::string& path, std::string_view text, bool overwrite) {
  return WriteWholeFile(path, std::as_bytes(std::span(text)), overwrite);
}

TEST(WholeFile, IsReplacedOnlyIfAskedTo) {
  const TemporaryFolder folder;
  ASSERT_EQ(Write(folder / "file", "first", false), std::nullopt);
  const auto refused = Write(folder / "file", "second", false);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(Contents(folder / "file"), "first");
  ASSERT_EQ(Write(folder / "file", "third", true), std::nullopt);
  EXPECT_EQ(Contents(folder / "file"), "third");
}

TEST(WholeFile, ALinkStaysOne) {
  const TemporaryFolder folder;
  SetContents(folder / "file", "first");
  std::filesystem::create_symlink("file", folder / "link");
  ASSERT_EQ(Write(folder / "link", "second", true), std::nullopt);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(Contents(folder / "file"), "second");
  EXPECT_TRUE(Write(folder / "link", "third", false).has_value());
  EXPECT_EQ(Contents(folder / "file"), "second");
}

// Root may replace /dev/null by a file, and would.
TEST(WholeFile, APipeIsWrittenIntoAndStaysOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(Write(path, "lost", true).has_value()) << "nobody reads";
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(Write(path, "text", true), std::nullopt);
  char got[16] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  EXPECT_STREQ(got, "text");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(path).parent_path()), {}), 1)
      << "nothing is left beside it";
}

// The program that wrote has done its work: no signal may end it, and no reader hold it up, for that.
TEST(WholeFile, APipeWhoseReaderLeavesOrRestsIsAnError) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string more_than_a_pipe_holds(1 << 20, 'x');
  int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const auto rests = Write(pipe, more_than_a_pipe_holds, true);
  ASSERT_TRUE(rests.has_value());
  EXPECT_NE(rests->reason.find("timed out"), std::string::npos) << rests->reason;

  std::thread leaves([&] { ::close(reader); });
  EXPECT_TRUE(Write(pipe, more_than_a_pipe_holds, true).has_value());
  leaves.join();
}

TEST(WholeFile, WhatThisProcessHasOpenIsNoObstacle) {
  const TemporaryFolder folder;
  SetContents(folder / "log", "a line of somebody else's\n");
  const int log = ::open((folder / "log").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(log, 0);
  const std::string open = "/dev/fd/" + std::to_string(log);
  EXPECT_EQ(FindObstacle(open, std::string_view("{")), std::nullopt);
  EXPECT_FALSE(HoldsSomethingElse(open, std::string_view("{")));
  ASSERT_EQ(Write(open, "{}\n", true), std::nullopt);
  EXPECT_EQ(Contents(folder / "log"), "a line of somebody else's\n{}\n");
  ::close(log);
  EXPECT_TRUE(FindObstacle(folder / "log", std::string_view("{")).has_value());
}

}  // namespace
}  // namespace stalloc::planner
