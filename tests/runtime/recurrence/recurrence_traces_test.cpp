// Recorded training, sizes only: the iteration is found, and its requests are recognised, in the traces of
// data/training_traces. Skipped where those are absent: they are no part of the product.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "recurrence_follow.h"

namespace stalloc::runtime {
namespace {

std::string TraceFolder() {
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  return (set != nullptr ? std::string(set) : std::string(STALLOC_SOURCE_DIR) + "/../shared/data") + "/training_traces";
}

// `op,id,bytes,stream,step`; ids count the allocations from 0. The truth is the request's number within its step.
Script ReadTrace(const std::string& path) {
  Script script;
  std::FILE* const file = ::popen(("gzip -dc '" + path + "'").c_str(), "r");
  if (file == nullptr) return script;
  char line[256];
  std::map<std::string, std::uint32_t> streams;
  std::map<int, std::uint64_t> requests;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    char op = 0, stream[64] = {};
    unsigned long long id = 0, size_bytes = 0;
    int step = 0;
    if (std::sscanf(line, "%c,%llu,%llu,%63[^,],%d", &op, &id, &size_bytes, stream, &step) != 5) continue;
    if (op == 'f') {
      script.Free(id);
      continue;
    }
    const auto ordinal = streams.emplace(stream, static_cast<std::uint32_t>(streams.size())).first->second;
    EXPECT_EQ(script.Allocate(0, size_bytes, ordinal, {step, ++requests[step]}), id);
  }
  ::pclose(file);
  return script;
}

struct Case {
  const char* trace;
  int found_by_step;  // the whole iteration found while this step is under way, or before
  int first_step, last_step;
  double least_matched, least_right;  // over these steps
};

class TraceTest : public testing::TestWithParam<Case> {};

TEST_P(TraceTest, IsFollowed) {
  const Case& test = GetParam();
  const std::string path = TraceFolder() + "/" + test.trace + ".csv.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent (set STALLOC_SHARED_DATA)";
  const Script script = ReadTrace(path);
  ASSERT_FALSE(script.truths.empty());
  const FollowResult result = Follow(script, 1000);

  ASSERT_FALSE(result.found.empty());
  const FoundPattern& first = result.found.front();
  EXPECT_LE(first.step, test.found_by_step);
  for (const FoundPattern& found : result.found) {
    const Truth& begin = script.truths[found.pattern.first_block];
    const Truth& end = script.truths[found.pattern.last_block];
    EXPECT_EQ(begin.name, 1u) << "starts within step " << begin.step;
    EXPECT_EQ(end.name, 1u) << "ends within step " << end.step;
  }
  const double matched = result.Matched(test.first_step, test.last_step);
  const double right = result.Right(test.first_step, test.last_step);
  EXPECT_GE(matched, test.least_matched);
  EXPECT_GE(right, test.least_right);
  std::printf("%s: found in step %d after %zu events; matched %.4f, right %.4f, with fixed sizes %.4f\n", test.trace,
              first.step, first.at, matched, right, result.Share(test.first_step, test.last_step, &StepResult::sized));
}

// In moe the numbers of requests vary, so that "the same number within the step" says nothing about right or wrong.
INSTANTIATE_TEST_SUITE_P(Recorded, TraceTest,
                         testing::Values(Case{"gpt2", 4, 5, 8, 0.99, 0.99}, Case{"llama-rc", 4, 5, 8, 0.99, 0.99},
                                         Case{"resnet50", 4, 5, 8, 0.99, 0.99}, Case{"vpp", 4, 5, 8, 0.99, 0.99},
                                         Case{"eval-mix", 4, 8, 12, 0.99, 0.99}, Case{"bert-var", 4, 6, 8, 0.99, 0.99},
                                         Case{"moe", 4, 5, 8, 0.93, 0.0}),
                         [](const auto& test) {
                           std::string name = test.param.trace;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace stalloc::runtime
