// stalloc fit, over a program that uses CUDA and no framework (simtrainer) and over scripts that stand for the other
// ends that a command may come to. With real PyTorch: tests/lab.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class FitVerb : public PreloadedTest {
 protected:
  static Ended Fit(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), "fit");
    return RunStalloc(arguments, environment);
  }
  // simtrainer of 5 steps: about 14.4 GiB live.
  static std::vector<std::string> Train(std::vector<std::string> options) {
    options.insert(options.end(), {"--", STALLOC_SIMTRAINER, "5"});
    return options;
  }
  static json Row(const json& result, const std::string& allocator, int run = 1) {
    for (const json& row : result.at("allocators"))
      if (row.at("allocator") == allocator && row.at("run") == run) return row;
    ADD_FAILURE() << "no row for " << allocator << run << " in " << result;
    return {};
  }
};

TEST_F(FitVerb, SaysWhatEachAllocatorHolds) {
  const Ended ended = Fit(Train({"--json", "--memory=24GiB"}));
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  const json result = json::parse(ended.output);
  EXPECT_EQ(result.at("memory_bytes"), 24 * kGiB);
  EXPECT_EQ(result.at("allocators").size(), 3u) << "PyTorch's other allocators make no difference here" << result;
  const json without = Row(result, "default"), with = Row(result, "stalloc"), again = Row(result, "stalloc", 2);
  for (const json& row : {without, with, again}) EXPECT_EQ(row.at("fits"), true) << row;
  EXPECT_GT(without.at("peak_device_bytes"), with.at("peak_device_bytes"));
  EXPECT_LE(with.at("fragmentation"), 0.01);
  EXPECT_LE(again.at("fragmentation"), 0.01);
  // Both views of what was held, from inside and from outside, agree.
  EXPECT_EQ(with.at("peak_reserved_bytes"), with.at("peak_device_bytes"));
  EXPECT_TRUE(with.at("in_memory").is_null()) << "what fits anyway is not run again";
  EXPECT_NE(result.at("advice").get<std::string>().find("Use stalloc"), std::string::npos) << result;
}

TEST_F(FitVerb, WhatNeedsMoreIsRunInThatMemoryAndJudgedByThat) {
  // Between what stalloc holds and what is held without it: only the first fits.
  const Ended ended = Fit(Train({"--json", "--memory=15GiB"}));
  ASSERT_EQ(ended.exit_code, 0) << ended.errors << ended.output;
  const json result = json::parse(ended.output);
  const json without = Row(result, "default");
  EXPECT_EQ(without.at("fits"), false) << without;
  EXPECT_EQ(without.at("in_memory").at("memory_bytes"), 15 * kGiB);
  EXPECT_NE(without.at("in_memory").at("exit_code"), 0);
  EXPECT_EQ(Row(result, "stalloc").at("fits"), true);

  const Ended small = Fit(Train({"--json", "--memory=8GiB"}));
  EXPECT_EQ(small.exit_code, 4) << small.errors;
  EXPECT_EQ(Row(json::parse(small.output), "stalloc").at("fits"), false);
  EXPECT_EQ(Row(json::parse(small.output), "stalloc", 2).at("fits"), false);
}

TEST_F(FitVerb, ItsTableHasTheSameFiguresWithin80Columns) {
  const Ended ended = Fit(Train({"--memory=15GiB"}));
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  for (const char* part : {"  default ", "  stalloc ", "  stalloc, 2nd run ", "peak live", "fits in 15 GiB", "  yes\n",
                           "  no\n", "Use stalloc", "Simulated: kernels are not executed"})
    EXPECT_NE(ended.output.find(part), std::string::npos) << part << "\n" << ended.output;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.size() <= 80 || !line.starts_with("  ")) << line;
}

TEST_F(FitVerb, OnlyWhatIsAskedForIsRun) {
  const Ended ended = Fit(Train({"--json", "--only=default", "--output=" + Path("kept")}));
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  const json result = json::parse(ended.output);
  EXPECT_EQ(result.at("allocators").size(), 1u);
  EXPECT_TRUE(Row(result, "default").at("fits").is_null()) << "no size is in question";
  EXPECT_NE(Read(Path("kept/default/output")).find("checksums"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("kept/stalloc")));
  EXPECT_EQ(Fit({"--only=none", "--", "true"}).exit_code, 2);
}

TEST_F(FitVerb, ACommandThatFailsByItselfIsNotJudged) {
  const Ended ended = Fit({"--", "sh", "-c", "echo no such data; exit 7"});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.output, "");
  EXPECT_NE(ended.errors.find("exit code 7"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("no such data"), std::string::npos) << ended.errors;
}

TEST_F(FitVerb, ACommandWithoutCudaIsSaid) {
  const Ended ended = Fit({"--", "echo", "hello"});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_NE(ended.errors.find("asked CUDA for no memory"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("hello"), std::string::npos) << ended.errors;
  const Ended missing = Fit({"--", "no-such-command-anywhere"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_NE(missing.errors.find("no-such-command-anywhere: No such file"), std::string::npos) << missing.errors;
  EXPECT_EQ(Fit({}).exit_code, 2);
}

// The reports of a framework's processes, as a script that stands for PyTorch writes them.
TEST_F(FitVerb, FailuresAreNamedByStepAndLine) {
  const std::string script = Write("train.sh", R"(
report=${STALLOC_SIMULATED_REPORT%\%p.json}$$.json
limit=${SIMCUDA_MEMORY:-0}
case "$PYTORCH_ALLOC_CONF" in *async*) held=14 ;; *expandable*) held=12 ;; *) held=20 ;; esac
case "$LD_PRELOAD" in *libstalloc.so*) held=10 ;; esac
error=null; code=0
if [ $((held << 30)) -gt "$limit" ]; then
  error='{"type": "OutOfMemoryError", "out_of_memory": true, "step": 2, "message": "CUDA out of memory. Tried to allocate 2.00 GiB. G",
   "call_site": {"file": "/src/model.py", "line": 57, "function": "forward"}}'
  code=1
fi
echo '{"format": 1, "torch": "9.9", "backend": "b", "steps": 4, "rank": 0, "devices": [{"device": 0,
 "peak_allocated_bytes": '$((10 << 30))', "peak_reserved_bytes": '$((held << 30))', "retries": 0}],
 "error": '$error', "choices": {"tokens of an expert": 3}, "unsimulated": {}}' > "$report"
exit $code
)");
  const Ended ended = Fit({"--memory=13GiB", "--", "sh", script});
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  for (const char* part :
       {"PyTorch 9.9", "no, step 3", "default runs out of memory in step 3, at /src/model.py:57 in forward",
        "in forward; it tried to allocate 2.00 GiB.\n", "Live memory reaches its peak in step 3, at /src/model.py:57",
        "chosen: tokens of an expert, 3 times", "less than the best of the others (expandable segments)"})
    EXPECT_NE(ended.output.find(part), std::string::npos) << part << "\n" << ended.output;
  EXPECT_EQ(Fit({"--memory=9GiB", "--", "sh", script}).exit_code, 4);
  // Without --memory it is the card's that counts.
  EXPECT_EQ(Fit({"--device=rtx4090", "--only=default", "--", "sh", script}).exit_code, 0);
  EXPECT_EQ(Fit({"--device=t4", "--only=default", "--", "sh", script}).exit_code, 4);
}

}  // namespace
}  // namespace stalloc::tools
