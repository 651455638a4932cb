#include "runtime/program_fingerprint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stalloc::runtime {
namespace {

TEST(ProgramFingerprint, WhatAPythonCommandLineRuns) {
  const struct {
    std::vector<std::string> arguments;
    const char* script;
  } cases[] = {
      {{"python", "train.py", "--lr", "1"}, "train.py"},
      {{"/usr/bin/python3.12", "-u", "/a/train.py", "-m", "x"}, "/a/train.py"},
      {{"python3", "-m", "pkg.train", "--steps=3"}, "-m pkg.train"},
      {{"python3", "-um", "pkg.train"}, "-m pkg.train"},
      {{"python3", "-mpkg.train"}, "-m pkg.train"},
      {{"python3", "-c", "import torch"}, "-c import torch"},
      {{"python3", "-W", "ignore", "-X", "dev", "train.py"}, "train.py"},
      {{"python3", "-Wignore", "-Xdev", "train.py"}, "train.py"},
      {{"python3", "-uW", "ignore", "train.py"}, "train.py"},
      {{"python3", "--check-hash-based-pycs", "never", "train.py"}, "train.py"},
      {{"python3", "--", "-odd-name.py"}, "-odd-name.py"},
      {{"python3", "-", "train.py"}, ""},
      {{"python3"}, ""},
      {{"python3", "-m"}, "-m "},
      {{"python3", "-W"}, ""},
      {{"./train", "data.bin"}, ""},
      {{}, ""},
  };
  for (const auto& c : cases) {
    std::string line;
    for (const std::string& argument : c.arguments) line += argument + " ";
    EXPECT_EQ(ScriptOf(c.arguments), c.script) << line;
  }
}

TEST(ProgramFingerprint, HoldsWithinTheProcessAndIsNeverZero) {
  EXPECT_NE(ProgramFingerprint(), 0U);
  EXPECT_EQ(ProgramFingerprint(), ProgramFingerprint());
}

}  // namespace
}  // namespace stalloc::runtime
