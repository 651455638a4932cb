// Runs a command for a test and keeps what it said; a folder for its files; small inputs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/temporary_folder.h"

namespace stalloc::tools {

struct Ended {
  int exit_code = 0;  // 128 + n if signal n ended it
  std::string output;
  std::string errors;
};

// `words` as the shell would take them: nothing is expanded. `environment`: "NAME=value", beside this process's own.
Ended RunWords(const std::vector<std::string>& words, const std::vector<std::string>& environment = {});

// The stalloc command of this build.
Ended RunStalloc(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});

// A test with an empty folder of its own, gone afterwards.
class CommandTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }
  std::string Write(const std::string& name, const std::string& content) const;  // returns the path
  static std::string Read(const std::string& path);

 private:
  const TemporaryFolder folder_;
};

// A test of programs that have libstalloc.so preloaded. A sanitized one cannot be: the sanitizer's own library would
// have to come before it.
class PreloadedTest : public CommandTest {
 protected:
  void SetUp() override {
#ifdef STALLOC_SANITIZED
    GTEST_SKIP() << "a sanitized libstalloc.so cannot be preloaded";
#endif
  }
};

// Six blocks, 40 bytes live at most, packed without a gap only by a planner that looks ahead.
std::string SmallLifetimes();

// `steps` steps of one forward and backward pass over `layers` layers: activations nest, one buffer a layer does not.
std::string SmallTraining(int steps, int layers);

}  // namespace stalloc::tools
