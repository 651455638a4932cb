// WriteWholeFile: what is there stays or is replaced as a whole; what cannot be replaced is written into.
#include "planner/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

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

}  // namespace
}  // namespace stalloc::planner
