// Follow: plays a script to the finder and the matcher as the runtime does, and says what came of it. Header of the
// recurrence tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "recurrence_script.h"
#include "runtime/recurrence/recurrence.h"

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

// Whether a plan of one is a plan of the other.
inline bool SamePlan(const Pattern& a, const Pattern& b) {
  const auto same = [](const PatternRequest& x, const PatternRequest& y) {
    return x.size_varies == y.size_varies && (x.size_varies || x.size_bytes == y.size_bytes) &&
           x.call_site == y.call_site && x.stream == y.stream && x.end - x.begin == y.end - y.begin &&
           x.persists == y.persists;
  };
  return a.period == b.period &&
         std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(), same);
}

// How much of an iteration's requests the pattern in force knew, the last time that so many had come; 1 before.
class KnownShare {
 public:
  void Note(bool known, std::size_t of) {
    known_ += known ? 1 : 0;
    if (++requests_ < of) return;
    last_ = static_cast<double>(known_) / static_cast<double>(requests_);
    requests_ = known_ = 0;
  }
  double last() const { return last_; }

 private:
  std::size_t requests_ = 0, known_ = 0;
  double last_ = 1;
};

// Searches after every `every` observations. A pattern that is not exact replaces another such only if that no longer
// fits, as the runtime would do.
inline FollowResult Follow(const Script& script, std::size_t every) {
  FollowResult result;
  IterationFinder finder;
  Matcher matcher;
  Pattern pattern;
  KnownShare known;
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
      known.Note(index != Matcher::kNone, pattern.requests.size());
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
    if (!found || (!result.found.empty() && SamePlan(*found, pattern))) continue;
    const bool longer = found->requests.size() * 2 > pattern.requests.size() * 3;
    if (!result.found.empty() && !found->exact && !longer && known.last() > 0.98) continue;
    const int step = next_block == 0 ? 0 : script.truths[next_block - 1].step;
    result.found.push_back({*found, i + 1, step});
    pattern = std::move(*found);
    matcher.Install(Matcher::Prepare(pattern), next_block);
    known = {};
  }
  return result;
}

}  // namespace stalloc::runtime
