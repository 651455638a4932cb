#include "runtime/call_sites/program_fingerprint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
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

using Arguments = std::vector<std::string>;

TEST(ProgramConfiguration, NumbersAndWordsCountAndWhereFilesLieDoesNot) {
  const Arguments plain = {"train.py", "--batch", "16", "--lr=0.001", "--out", "runs/a/log.txt"};
  EXPECT_EQ(ConfigurationOf(plain), ConfigurationOf(Arguments(plain)));
  const auto other = [&](std::size_t at, const std::string& text) {
    Arguments changed = plain;
    changed[at] = text;
    return ConfigurationOf(changed);
  };
  EXPECT_NE(other(2, "8"), ConfigurationOf(plain));
  EXPECT_NE(other(3, "--lr=0.002"), ConfigurationOf(plain)) << "a number is no file";
  EXPECT_NE(other(1, "--micro-batch"), ConfigurationOf(plain));
  EXPECT_EQ(other(5, "runs/b/log.txt"), ConfigurationOf(plain));
  EXPECT_EQ(other(5, "b.log"), ConfigurationOf(plain));
  EXPECT_NE(ConfigurationOf(Arguments{"--out=a", "1"}), ConfigurationOf(Arguments{"--out=a1"}));
}

TEST(ProgramConfiguration, WhatASettingsFileSaysCounts) {
  const std::string path = testing::TempDir() + "stalloc_configuration_" + std::to_string(::getpid()) + ".yaml";
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ConfigurationOf(Arguments{"train.py", "--config=" + path});
  };
  const std::uint64_t first = with("batch: 16");
  EXPECT_NE(with("batch: 8"), first);
  EXPECT_EQ(with("batch: 16"), first);
  std::remove(path.c_str());
  EXPECT_NE(ConfigurationOf(Arguments{"train.py", "--config=" + path}), 0u) << "it is not there";
}

TEST(ProgramConfiguration, HoldsWithinTheProcessAndIsNeverZero) {
  EXPECT_NE(ProgramConfiguration(), 0U);
  EXPECT_EQ(ProgramConfiguration(), ProgramConfiguration());
}

}  // namespace
}  // namespace stalloc::runtime
