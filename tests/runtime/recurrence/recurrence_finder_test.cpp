// The iteration is found in made-up training programs of many kinds, and only the iteration.
#include <gtest/gtest.h>

#include <string>

#include "recurrence_follow.h"
#include "recurrence_script.h"

namespace stalloc::runtime {
namespace {

struct Case {
  std::string name;
  TrainingOptions options;
  int found_by_step = 3;        // whole iteration found while this step is under way, or before
  double steady_matched = 1.0;  // least shares in the last steps
  double steady_right = 1.0;
  bool exact = true;
};

TrainingOptions With(void (*change)(TrainingOptions&)) {
  TrainingOptions options;
  change(options);
  return options;
}

std::vector<Case> Cases() {
  return {
      {"plain", With([](TrainingOptions&) {})},
      {"tiny", With([](TrainingOptions& o) { o.layers = 2; })},
      {"deep", With([](TrainingOptions& o) { o.layers = 60; })},
      {"recomputation", With([](TrainingOptions& o) { o.recomputation = true, o.layers = 30; })},
      {"accumulation", With([](TrainingOptions& o) { o.accumulation = 4; })},
      {"long_accumulation", With([](TrainingOptions& o) { o.accumulation = 16; })},
      {"kept_gradients", With([](TrainingOptions& o) { o.keep_gradients = true; })},
      {"kept_losses", With([](TrainingOptions& o) { o.keep_losses = true; })},
      {"log", With([](TrainingOptions& o) { o.log_every = 5, o.steps = 16; })},
      {"experts", With([](TrainingOptions& o) { o.experts = 8, o.steps = 12; }), 4, 0.97, 0.92, false},
      {"varying_length", With([](TrainingOptions& o) { o.varying_length = true; }), 4, 0.98, 0.85, false},
      {"loader_thread", With([](TrainingOptions& o) { o.prefetch = true, o.steps = 12; }), 4, 0.98, 0.98, false},
  };
}

class FinderTest : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(FinderTest, FindsTheIterationAndFollowsIt) {
  const auto& [test, call_sites] = GetParam();
  TrainingOptions options = test.options;
  options.call_sites = call_sites;
  const Training training(options);
  const Script& script = training.script();
  const FollowResult result = Follow(script, 100);

  ASSERT_FALSE(result.found.empty());
  const FoundPattern& first = result.found.front();
  EXPECT_LE(first.step, test.found_by_step);
  // One whole step, from its beginning.
  const Truth& begin = script.truths[first.pattern.first_block];
  const Truth& end = script.truths[first.pattern.last_block];
  EXPECT_EQ(end.step, begin.step + 1);
  EXPECT_EQ(begin.name, end.name);
  for (std::uint64_t block = first.pattern.first_block; block < first.pattern.last_block; ++block)
    EXPECT_EQ(script.truths[block].step, begin.step);
  EXPECT_EQ(first.pattern.requests.size(), first.pattern.last_block - first.pattern.first_block);
  if (test.exact) {
    for (const PatternRequest& request : result.found.back().pattern.requests) EXPECT_FALSE(request.size_varies);
  }
  EXPECT_GE(result.Matched(options.steps - 3, options.steps), test.steady_matched);
  EXPECT_GE(result.Right(options.steps - 3, options.steps), test.steady_right);
}

INSTANTIATE_TEST_SUITE_P(Programs, FinderTest, testing::Combine(testing::ValuesIn(Cases()), testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param).name +
                                  (std::get<1>(test.param) ? "_with_call_sites" : "_sizes_only");
                         });

// Lifetimes in the pattern are those of the program, also of the blocks that were not freed yet when it was found.
TEST(FinderLifetimes, AreThoseOfTheProgram) {
  const Training training(TrainingOptions{});
  const Script& script = training.script();
  std::vector<std::int64_t> begins(script.truths.size()), ends(script.truths.size(), -1);
  for (std::size_t i = 0; i < script.observations.size(); ++i) {
    const Observation& o = script.observations[i];
    (o.op == Observation::Op::kAllocate ? begins : ends)[o.block] = static_cast<std::int64_t>(i);
  }
  const FollowResult result = Follow(script, 7);
  ASSERT_FALSE(result.found.empty());
  const Pattern& pattern = result.found.front().pattern;
  const std::int64_t start = begins[pattern.first_block];
  EXPECT_EQ(pattern.period, begins[pattern.last_block] - start);
  for (const PatternRequest& request : pattern.requests) {
    EXPECT_EQ(request.begin, begins[request.example_block] - start);
    EXPECT_EQ(request.end, ends[request.example_block] - start);
    EXPECT_FALSE(request.persists);
  }
}

TEST(FinderLifetimes, KeptBlocksPersist) {
  TrainingOptions options;
  options.keep_losses = true;
  const Training training(options);
  const FollowResult result = Follow(training.script(), 50);
  ASSERT_FALSE(result.found.empty());
  int persisting = 0;
  for (const PatternRequest& request : result.found.back().pattern.requests) {
    persisting += request.persists;
    EXPECT_GT(request.end, request.begin);
  }
  EXPECT_EQ(persisting, 1);
}

// A large block that lives until the next step's is there keeps the step from being found to repeat exactly no more
// than a small one does, and is no part of its plan.
TEST(FinderLifetimes, BlocksThatTakeTurnsPersist) {
  for (const bool call_sites : {false, true}) {
    TrainingOptions options;
    options.hold_output = true;
    options.call_sites = call_sites;
    const Training training(options);
    const Script& script = training.script();
    IterationFinder finder;
    finder.Observe(script.observations);
    const std::optional<Pattern> pattern = finder.Find();
    ASSERT_TRUE(pattern);
    EXPECT_TRUE(pattern->exact);
    EXPECT_EQ(script.truths[pattern->last_block].step, script.truths[pattern->first_block].step + 1);
    EXPECT_EQ(script.truths[pattern->last_block].name, script.truths[pattern->first_block].name);
    for (const PatternRequest& request : pattern->requests)
      EXPECT_EQ(request.persists, request.size_bytes == Training::kOutputBytes);
    // Wherever in the last step one looks.
    const std::size_t step = pattern->requests.size();
    for (std::size_t less = 1; less < step; ++less) {
      IterationFinder early;
      early.Observe(std::span(script.observations).first(script.observations.size() - less));
      const std::optional<Pattern> same = early.Find();
      ASSERT_TRUE(same) << less << " observations before the end";
      EXPECT_EQ(same->requests.size(), step);
    }
  }
}

// Three steps and the evaluation after them become one iteration, once it was seen twice; the step alone serves before.
TEST(FinderEvaluation, BecomesPartOfALongerIteration) {
  for (int accumulation : {1, 4}) {
    TrainingOptions options;
    options.accumulation = accumulation;
    options.evaluation_every = 3;
    options.steps = 15;
    const Training training(options);
    const FollowResult result = Follow(training.script(), 100);
    ASSERT_EQ(result.found.size(), 2u);
    const Pattern& step = result.found[0].pattern;
    const Pattern& cycle = result.found[1].pattern;
    EXPECT_EQ(training.script().truths[step.last_block].step, training.script().truths[step.first_block].step + 1);
    EXPECT_EQ(training.script().truths[cycle.last_block].step, training.script().truths[cycle.first_block].step + 3);
    EXPECT_GE(result.Right(4, 5), 0.98);  // the step's pattern, after an evaluation that it does not know
    EXPECT_EQ(result.Right(10, 15), 1.0);
  }
}

// An evaluation of many batches does not take the place of the step.
TEST(FinderEvaluation, DoesNotReplaceTheStep) {
  TrainingOptions options;
  options.evaluation_every = 7;
  options.evaluation_batches = 20;
  options.steps = 13;
  const Training training(options);
  const FollowResult result = Follow(training.script(), 100);
  ASSERT_EQ(result.found.size(), 1u);
  EXPECT_GE(result.Right(8, 13), 0.98);
}

// The finder says the same whenever it is asked: the boundary does not wander.
TEST(FinderBoundary, DoesNotDependOnWhenItIsAsked) {
  TrainingOptions options;
  options.accumulation = 4;
  options.keep_gradients = true;
  options.steps = 10;
  const Training training(options);
  IterationFinder finder;
  std::optional<Pattern> first;
  int finds = 0;
  const std::vector<Observation>& observations = training.script().observations;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    finder.Observe({&observations[i], 1});
    if (i < observations.size() / 2 || i % 61 != 0) continue;
    const std::optional<Pattern> pattern = finder.Find();
    ASSERT_TRUE(pattern.has_value());
    if (finds++ == 0) first = pattern;
    EXPECT_TRUE(SamePlan(*pattern, *first));
  }
  EXPECT_GT(finds, 50);
}

TEST(FinderNothing, IsFoundInNothing) {
  IterationFinder finder;
  EXPECT_FALSE(finder.Find().has_value());
  std::mt19937 random(7);
  for (std::uint64_t block = 0; block < 5000; ++block) {
    Observation o;
    o.block = block;
    o.size_bytes = 1 + random() % 1000;
    finder.Observe({&o, 1});
    o.op = Observation::Op::kFree;
    if (random() % 2 == 0) finder.Observe({&o, 1});
    if (block % 500 == 0) {
      EXPECT_FALSE(finder.Find().has_value());
    }
  }
}

// Frees of blocks that were there before, blocks that are never freed, and a window that overflows.
TEST(FinderWindow, IsBounded) {
  TrainingOptions options;
  options.layers = 4;
  options.steps = 2000;
  const Training training(options);
  ASSERT_GT(training.script().observations.size(), 600000u);
  IterationFinder finder;
  Observation unknown;
  unknown.op = Observation::Op::kFree;
  unknown.block = 1u << 30;
  finder.Observe({&unknown, 1});
  finder.Observe(training.script().observations);
  const std::optional<Pattern> pattern = finder.Find();
  ASSERT_TRUE(pattern.has_value());
  EXPECT_TRUE(pattern->exact);
  EXPECT_EQ(training.script().truths[pattern->last_block].step,
            training.script().truths[pattern->first_block].step + 1);
}

// What a program does when it has come to its measuring loop: one block, made and freed for ever.
TEST(IterationFinder, AnEndlessLoopIsAnIteration) {
  IterationFinder finder;
  std::uint64_t block = 1;
  const auto pairs = [&](int count) {
    for (int i = 0; i < count; ++i, ++block) {
      const Observation both[] = {{Observation::Op::kAllocate, 0, block, 1 << 20, 77},
                                  {Observation::Op::kFree, 0, block, 1 << 20, 0}};
      finder.Observe(both);
    }
  };
  pairs(1500);
  EXPECT_FALSE(finder.Find()) << "a loop inside something";
  pairs(1500);
  const std::optional<Pattern> pattern = finder.Find();
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->exact);
  EXPECT_EQ(pattern->requests.size(), 32u);
  EXPECT_EQ(pattern->period, 64);
}

}  // namespace
}  // namespace stalloc::runtime
