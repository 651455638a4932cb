// Follow: plays a script to the finder and the matcher as the runtime does, and says what came of it. Header of the
// recurrence tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "recurrence_script.h"
#include "runtime/recurrence.h"

namespace stalloc::runtime {

struct FoundPattern {
  Pattern pattern;
  std::size_t at = 0;  // observations seen
  int step = 0;        // in which it was found
};

struct StepResult {
  int requests = 0;
  int matched = 0;
  int right = 0;  // matched the request of the same name
  int sized = 0;  // of these, with a size that does not vary: what a plan can serve
};

struct FollowResult {
  std::vector<FoundPattern> found;  // each pattern that differs from the one before
  std::map<int, StepResult> steps;

  double Right(int first_step, int last_step) const { return Share(first_step, last_step, &StepResult::right); }
  double Matched(int first_step, int last_step) const { return Share(first_step, last_step, &StepResult::matched); }
  double Share(int first_step, int last_step, int StepResult::*what) const {
    int requests = 0, count = 0;
    for (const auto& [step, result] : steps)
      if (step >= first_step && step <= last_step) requests += result.requests, count += result.*what;
    return requests == 0 ? 0.0 : static_cast<double>(count) / requests;
  }
};

// Searches after every `every` observations. A pattern that is not exact replaces another such only if that no longer
// fits, as the runtime would do.
inline FollowResult Follow(const Script& script, std::size_t every) {
  FollowResult result;
  IterationFinder finder;
  Matcher matcher;
  Pattern pattern;
  std::uint64_t next_block = 0;
  for (std::size_t i = 0; i < script.observations.size(); ++i) {
    Observation o = script.observations[i];
    if (o.op == Observation::Op::kAllocate) {
      next_block = o.block + 1;
      const Truth& truth = script.truths[o.block];
      StepResult& step = result.steps[truth.step];
      ++step.requests;
      const std::uint64_t call_site = matcher.Expects(o.size_bytes, o.stream) ? 0 : o.call_site;
      const std::int32_t index = matcher.Match(o.size_bytes, o.stream, call_site);
      if (index != Matcher::kNone) {
        const PatternRequest& request = pattern.requests[static_cast<std::size_t>(index)];
        if (!request.size_varies) {
          EXPECT_EQ(request.size_bytes, o.size_bytes);
          ++step.sized;
        }
        EXPECT_EQ(request.stream, o.stream);
        ++step.matched;
        const Truth& example = script.truths[request.example_block];
        step.right += example.name == truth.name;
        if (call_site == 0) o.call_site = request.call_site;
      }
    }
    finder.Observe({&o, 1});
    if ((i + 1) % every != 0) continue;
    std::optional<Pattern> found = finder.Find();
    if (!found || (!result.found.empty() && found->fingerprint == pattern.fingerprint)) continue;
    const bool longer = found->requests.size() * 2 > pattern.requests.size() * 3;
    if (matcher.HasPattern() && !found->exact && !longer && matcher.LastIterationMatchRate() > 0.98) continue;
    const int step = next_block == 0 ? 0 : script.truths[next_block - 1].step;
    result.found.push_back({*found, i + 1, step});
    pattern = std::move(*found);
    matcher.SetPattern(pattern, next_block);
  }
  return result;
}

}  // namespace stalloc::runtime
