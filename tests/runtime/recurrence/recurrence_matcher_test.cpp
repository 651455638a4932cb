// The matcher in step, out of step and back.
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include <random>
#include <set>
#include <vector>

#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {
namespace {

struct Call {
  std::uint64_t size_bytes = 0;
  std::uint64_t call_site = 0;
  std::int32_t want = Matcher::kNone;  // the request that it is
};

// A pattern of the given sizes, with call sites unless they are 0.
Pattern PatternOf(const std::vector<Call>& calls) {
  Pattern pattern;
  for (const Call& call : calls) {
    PatternRequest request;
    request.size_bytes = call.size_bytes;
    request.call_site = call.call_site;
    request.begin = static_cast<std::int64_t>(pattern.requests.size());
    request.end = request.begin + 1;
    pattern.requests.push_back(request);
  }
  pattern.period = static_cast<std::int64_t>(pattern.requests.size());
  pattern.last_block = pattern.requests.size();
  pattern.exact = true;
  return pattern;
}

// Forward and backward through equal layers, and an optimizer: the same few sizes over and over.
std::vector<Call> Layers(int layers, bool call_sites) {
  std::vector<Call> calls;
  auto add = [&](std::uint64_t site, std::uint64_t size) {
    calls.push_back({size, call_sites ? site : 0, static_cast<std::int32_t>(calls.size())});
  };
  add(1, 77);
  add(2, 78);
  for (int i = 0; i < layers; ++i)
    for (std::uint64_t k = 0; k < 12; ++k) add(10 + k, 1024 * (1 + k % 5));
  add(3, 79);
  for (int i = 0; i < layers; ++i)
    for (std::uint64_t k = 0; k < 15; ++k) add(40 + k, 1024 * (1 + k % 7));
  for (int i = 0; i < layers; ++i) add(70, 4096u << (i % 3));
  return calls;
}

struct Outcome {
  int requests = 0, right = 0, wrong = 0, none = 0;
};

// Plays calls; checks what must hold of every answer.
Outcome Play(Matcher& matcher, const Pattern& pattern, const std::vector<Call>& calls) {
  Outcome outcome;
  std::set<std::int32_t> seen;
  std::uint64_t iteration = matcher.IterationsSeen();
  for (const Call& call : calls) {
    const bool expected = matcher.Expects(call.size_bytes, 0);
    const std::int32_t index = matcher.Match(call.size_bytes, 0, expected ? 0 : call.call_site);
    ++outcome.requests;
    if (expected) {
      EXPECT_NE(index, Matcher::kNone);
    }
    if (index == Matcher::kNone) {
      ++outcome.none;
    } else {
      EXPECT_LT(static_cast<std::size_t>(index), pattern.requests.size());
      const PatternRequest& request = pattern.requests[static_cast<std::size_t>(index)];
      if (!request.size_varies) {
        EXPECT_EQ(request.size_bytes, call.size_bytes);
      }
      if (request.call_site != 0 && call.call_site != 0 && !expected) {
        EXPECT_EQ(request.call_site, call.call_site);
      }
      ++(index == call.want ? outcome.right : outcome.wrong);
      // The iteration may end with this request, or before it.
      if (!seen.insert(index).second) {
        EXPECT_NE(matcher.IterationsSeen(), iteration) << "request " << index << " twice in an iteration";
        seen = {index};
        iteration = matcher.IterationsSeen();
      }
    }
    if (matcher.IterationsSeen() != iteration) {
      iteration = matcher.IterationsSeen();
      seen.clear();
      if (index != Matcher::kNone && matcher.Position() > 0) seen.insert(index);
    }
  }
  return outcome;
}

class MatcherTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    calls_ = Layers(6, GetParam());
    pattern_ = PatternOf(calls_);
    matcher_.Install(Matcher::Prepare(pattern_));
  }

  std::vector<Call> calls_;
  Pattern pattern_;
  Matcher matcher_;
};

TEST_P(MatcherTest, MatchesEveryRequestOfIterationsThatRepeat) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(matcher_.IterationsSeen(), i);
    EXPECT_EQ(matcher_.Position(), 0);
    const Outcome outcome = Play(matcher_, pattern_, calls_);
    EXPECT_EQ(outcome.right, outcome.requests);
  }
}

TEST_P(MatcherTest, AnInsertedRequestCostsOneMissAndShiftsNothing) {
  Play(matcher_, pattern_, calls_);
  for (std::size_t at = 0; at <= calls_.size(); at += 7) {
    std::vector<Call> changed = calls_;
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at), Call{999, GetParam() ? 999u : 0u});
    const Outcome outcome = Play(matcher_, pattern_, changed);
    EXPECT_EQ(outcome.none, 1) << "inserted at " << at;
    EXPECT_EQ(outcome.wrong, 0) << "inserted at " << at;
  }
}

TEST_P(MatcherTest, AMissingRequestCostsNextToNothing) {
  Play(matcher_, pattern_, calls_);
  for (std::size_t at = 0; at < calls_.size(); at += 7) {
    std::vector<Call> changed = calls_;
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(at));
    const Outcome outcome = Play(matcher_, pattern_, changed);
    EXPECT_LE(outcome.none, 2) << "missing at " << at;
    EXPECT_LE(outcome.wrong, 4) << "missing at " << at;
    Play(matcher_, pattern_, calls_);
    const Outcome next = Play(matcher_, pattern_, calls_);
    EXPECT_EQ(next.right, next.requests) << "missing at " << at;
  }
}

TEST_P(MatcherTest, AChangedSizeCostsThatRequest) {
  Play(matcher_, pattern_, calls_);
  for (std::size_t at = 0; at < calls_.size(); at += 5) {
    std::vector<Call> changed = calls_;
    changed[at].size_bytes = 12345;
    changed[at].want = Matcher::kNone;
    const Outcome outcome = Play(matcher_, pattern_, changed);
    EXPECT_EQ(outcome.none, 1) << "changed at " << at;
    EXPECT_EQ(outcome.wrong, 0) << "changed at " << at;
  }
}

TEST_P(MatcherTest, RequestsInAnotherOrderAreStillFound) {
  Play(matcher_, pattern_, calls_);
  std::vector<Call> changed = calls_;
  for (std::size_t at = 3; at + 1 < changed.size(); at += 20) std::swap(changed[at], changed[at + 1]);
  const Outcome outcome = Play(matcher_, pattern_, changed);
  EXPECT_GE(outcome.right, outcome.requests * 9 / 10);
}

TEST_P(MatcherTest, AWholeLayerLeftOutIsNoticed) {
  Play(matcher_, pattern_, calls_);
  std::vector<Call> changed = calls_;
  changed.erase(changed.begin() + 2 + 12 * 2, changed.begin() + 2 + 12 * 3);
  const Outcome outcome = Play(matcher_, pattern_, changed);
  // Which of the equal layers is missing cannot be seen; the rest must be right again.
  EXPECT_LE(outcome.none, 12);
  EXPECT_GE(outcome.right, outcome.requests - 12 * 4);
}

TEST_P(MatcherTest, SomethingElseInBetweenMatchesLittleAndEndsWithIt) {
  Play(matcher_, pattern_, calls_);
  std::vector<Call> other;
  for (int i = 0; i < 2000; ++i) other.push_back({static_cast<std::uint64_t>(5000 + i % 13), GetParam() ? 500u : 0u});
  const Outcome between = Play(matcher_, pattern_, other);
  EXPECT_EQ(between.none, between.requests);
  const Outcome after = Play(matcher_, pattern_, calls_);
  EXPECT_LE(after.none, 4);
  EXPECT_EQ(after.wrong, 0);
}

TEST_P(MatcherTest, AnIterationCutShortIsFollowedByTheNext) {
  Play(matcher_, pattern_, calls_);
  const std::uint64_t before = matcher_.IterationsSeen();
  Play(matcher_, pattern_, {calls_.begin(), calls_.end() - 100});
  Play(matcher_, pattern_, calls_);
  EXPECT_EQ(matcher_.IterationsSeen(), before + 2);
  const Outcome outcome = Play(matcher_, pattern_, calls_);
  EXPECT_EQ(outcome.right, outcome.requests);
}

TEST_P(MatcherTest, ADifferentProgramIsNotTakenForThePatterns) {
  Play(matcher_, pattern_, calls_);
  std::vector<Call> other;
  for (int i = 0; i < 6000; ++i) other.push_back({static_cast<std::uint64_t>(100000 + i), GetParam() ? 500u : 0u});
  const Outcome outcome = Play(matcher_, pattern_, other);
  EXPECT_GT(outcome.none, outcome.requests * 9 / 10) << "none of them is in the pattern";
}

TEST_P(MatcherTest, TheNextBlocksNumberTellsThePlace) {
  for (std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, pattern_.last_block / 2, pattern_.last_block - 1}) {
    Matcher matcher;
    matcher.Install(Matcher::Prepare(pattern_), 3 * pattern_.last_block + at);
    const Outcome outcome = Play(matcher, pattern_, {calls_.begin() + static_cast<std::ptrdiff_t>(at), calls_.end()});
    EXPECT_EQ(outcome.right, outcome.requests);
  }
}

INSTANTIATE_TEST_SUITE_P(Identity, MatcherTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "CallSites" : "SizesOnly"; });

TEST(Matcher, WithoutAPatternExpectsAndMatchesNothing) {
  Matcher matcher;
  EXPECT_EQ(matcher.Position(), Matcher::kNone);
  EXPECT_FALSE(matcher.Expects(1, 0));
  EXPECT_EQ(matcher.Match(1, 0, 0), Matcher::kNone);
  matcher.Install(Matcher::Prepare(PatternOf(Layers(2, false))));
  EXPECT_EQ(matcher.Position(), 0);
  EXPECT_TRUE(matcher.Expects(77, 0));
  EXPECT_FALSE(matcher.Expects(77, 1));
  matcher.Install(nullptr);
  EXPECT_FALSE(matcher.Expects(77, 0));
  EXPECT_EQ(matcher.Match(77, 0, 0), Matcher::kNone);
  matcher.Install(Matcher::Prepare(Pattern{}));
  EXPECT_EQ(matcher.Position(), Matcher::kNone);
}

TEST(Matcher, AVaryingSizeIsKnownByItsCallSite) {
  std::vector<Call> calls = Layers(3, true);
  Pattern pattern = PatternOf(calls);
  for (std::size_t i = 5; i < calls.size(); i += 6) {
    pattern.requests[i].size_varies = true;
    pattern.requests[i].call_site = calls[i].call_site = 600;
  }
  Matcher matcher;
  matcher.Install(Matcher::Prepare(pattern));
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (std::size_t i = 5; i < calls.size(); i += 6) calls[i].size_bytes = 1 + 7919 * i * (iteration + 3) % 100000;
    const Outcome outcome = Play(matcher, pattern, calls);
    EXPECT_EQ(outcome.right, outcome.requests);
  }
}

TEST(Matcher, TheSameSizeElsewhereIsNotTheSameRequest) {
  Pattern pattern = PatternOf({{100, 1}, {200, 2}, {300, 3}, {400, 4}, {500, 5}, {600, 6}});
  Matcher matcher;
  matcher.Install(Matcher::Prepare(pattern));
  EXPECT_EQ(matcher.Match(100, 0, 1), 0);
  EXPECT_EQ(matcher.Match(200, 0, 9), Matcher::kNone);
  EXPECT_EQ(matcher.Match(200, 0, 2), 1);
  EXPECT_EQ(matcher.Match(300, 1, 3), Matcher::kNone);  // another stream
  EXPECT_EQ(matcher.Match(300, 0, 3), 2);
}

// Requests too large, or streams too many, for the packed comparison never match rather than match wrongly.
TEST(Matcher, WhatDoesNotFitTheComparisonNeverMatches) {
  const std::uint64_t huge = std::uint64_t{1} << 50;
  Pattern pattern = PatternOf({{huge, 0}, {200, 0}});
  Matcher matcher;
  matcher.Install(Matcher::Prepare(pattern));
  EXPECT_FALSE(matcher.Expects(huge, 0));
  EXPECT_EQ(matcher.Match(huge, 0, 0), Matcher::kNone);
  EXPECT_EQ(matcher.Match(huge + 1, 0, 0), Matcher::kNone);
}

TEST(Matcher, InstallHandsBackThePatternBefore) {
  Matcher matcher;
  EXPECT_EQ(matcher.Install(Matcher::Prepare(PatternOf(Layers(1, false)))), nullptr);
  Matcher::PreparedPattern before = matcher.Install(Matcher::Prepare(PatternOf(Layers(2, true))));
  EXPECT_NE(before, nullptr);
  EXPECT_NE(matcher.Install(std::move(before)), nullptr);
  EXPECT_TRUE(matcher.Expects(77, 0));
}

// Calls with some left out, some changed and some put in between.
std::vector<Call> WithNoise(const std::vector<Call>& calls, std::mt19937& random, unsigned one_in) {
  std::vector<Call> noisy;
  for (const Call& call : calls) {
    const unsigned kind = static_cast<unsigned>(random() % (3 * one_in));
    if (kind == 0) continue;
    if (kind == 1) noisy.push_back({call.size_bytes + 1, call.call_site});
    if (kind == 2) noisy.push_back({1 + random() % 20000, call.call_site == 0 ? 0u : 77u});
    if (kind != 1) noisy.push_back(call);
  }
  return noisy;
}

std::vector<Call> RandomCalls(std::mt19937& random, int length, unsigned kinds, bool call_sites) {
  std::vector<Call> calls;
  for (int i = 0; i < length; ++i) {
    const std::uint64_t kind = random() % kinds;
    calls.push_back({256 * (kind % 40 + 1), call_sites ? 1 + kind : 0, i});
  }
  return calls;
}

// Whatever the pattern and whatever comes, every answer is a lawful one: Play checks them.
void AnswersAreLawful() {
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  const bool call_sites = *rc::gen::arbitrary<bool>();
  const std::vector<Call> calls =
      RandomCalls(random, *rc::gen::inRange(1, 400), *rc::gen::inRange(1u, 60u), call_sites);
  Pattern pattern = PatternOf(calls);
  const unsigned varying_one_in = *rc::gen::inRange(1u, 30u);
  for (PatternRequest& request : pattern.requests) request.size_varies = random() % varying_one_in == 1;
  Matcher matcher;
  matcher.Install(Matcher::Prepare(pattern));
  const unsigned noise_one_in = *rc::gen::inRange(1u, 30u);
  for (int iteration = 0; iteration < 5; ++iteration) {
    const std::vector<Call> noisy = WithNoise(calls, random, noise_one_in);
    RC_ASSERT(Play(matcher, pattern, noisy).requests == static_cast<int>(noisy.size()));
    RC_ASSERT(matcher.Position() >= 0 && matcher.Position() < static_cast<int>(calls.size()));
  }
}

// A pattern whose requests can be told apart is followed through noise, and exactly once the noise is over.
void RecoversFromNoise() {
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  const bool call_sites = *rc::gen::arbitrary<bool>();
  const std::vector<Call> calls =
      RandomCalls(random, *rc::gen::inRange(64, 400), *rc::gen::inRange(8u, 60u), call_sites);
  const Pattern pattern = PatternOf(calls);
  Matcher matcher;
  matcher.Install(Matcher::Prepare(pattern));
  for (int iteration = 0; iteration < 4; ++iteration) {
    const std::vector<Call> noisy = WithNoise(calls, random, 10);
    const Outcome outcome = Play(matcher, pattern, noisy);
    if (iteration > 0) RC_ASSERT(outcome.right >= outcome.requests * 6 / 10);
  }
  Play(matcher, pattern, calls);
  const Outcome outcome = Play(matcher, pattern, calls);
  RC_ASSERT(outcome.right == outcome.requests);
}

TEST(MatcherProperty, AnswersAreLawful) { EXPECT_TRUE(rc::check("answers are lawful", AnswersAreLawful)); }
TEST(MatcherProperty, RecoversFromNoise) { EXPECT_TRUE(rc::check("recovers from noise", RecoversFromNoise)); }

}  // namespace
}  // namespace stalloc::runtime
