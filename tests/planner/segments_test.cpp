// Long traces, which the solver cuts into segments: what comes out must not depend on how.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planner/lower_bound.h"
#include "planner/solve.h"
#include "planner/validate.h"

namespace stalloc::planner {
namespace {

struct TraceShape {
  int steps = 60;
  int layers = 24;
  Bytes longest = 512;    // every step draws its length anew, up to this
  bool optimizer = true;  // state that the first step makes and nobody frees
  int across_each = 2;    // blocks that live into the next step (batches fetched ahead)
  Bytes weight_bytes = 1 << 20;
};

// Training as a framework asks for it: weights, then steps of a forward pass that keeps activations and a backward pass
// that frees them, with short-lived buffers in each layer.
Problem TrainingTrace(const TraceShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Problem problem;
  Time now = 0;
  std::vector<std::size_t> open;
  const auto begin = [&](Bytes size) {
    problem.requests.push_back({std::max<Bytes>(size, 1), now++, 0, 0});
    return problem.requests.size() - 1;
  };
  const auto end = [&](std::size_t i) { problem.requests[i].end = now++; };
  for (int k = 0; k < shape.layers; ++k) open.push_back(begin(shape.weight_bytes + 256 * (random() % 4096)));
  std::vector<std::size_t> fetched;
  for (int step = 0; step < shape.steps; ++step) {
    const Bytes length = 1 + random() % shape.longest;
    std::vector<std::size_t> leftover = std::move(fetched);
    fetched.clear();
    std::vector<std::vector<std::size_t>> kept(shape.layers);
    for (std::vector<std::size_t>& layer : kept) {
      for (const Bytes factor : {1024, 4096, 3072, 1024, 16}) {
        const std::size_t buffer = begin(length * factor * 2);
        layer.push_back(begin(length * factor));
        if (random() % 8 == 0) layer.push_back(begin(length * (random() % 64)));
        end(buffer);
      }
    }
    for (int k = 0; k < shape.across_each; ++k) fetched.push_back(begin(length * 8));
    for (auto layer = kept.rbegin(); layer != kept.rend(); ++layer) {
      const std::size_t gradient = begin(length * 4096);
      for (const std::size_t i : *layer) {
        const std::size_t buffer = begin(length * 1024);
        end(i);
        end(buffer);
      }
      end(gradient);
      if (shape.optimizer && step == 0) open.push_back(begin(2 * shape.weight_bytes));
    }
    for (const std::size_t i : leftover) end(i);
  }
  for (const std::size_t i : fetched) open.push_back(i);
  for (const std::size_t i : open) end(i);
  return problem;
}

double Ratio(const Solution& solution) {
  return static_cast<double>(solution.placement.height_bytes) / static_cast<double>(solution.lower_bound_bytes);
}

// More than 40 000 requests.
Problem LongTrace(TraceShape shape, std::uint64_t seed) {
  const std::size_t each = TrainingTrace({.steps = 1, .layers = shape.layers}, seed).requests.size();
  shape.steps = static_cast<int>(50000 / each) + 1;
  return TrainingTrace(shape, seed);
}

TEST(Segments, AnswerIsValidAndTheSameForAnyNumberOfThreads) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Problem problem = LongTrace({.layers = 12, .across_each = static_cast<int>(seed)}, seed);
    ASSERT_GT(problem.requests.size(), 40000u);
    const Solution one = Solve(problem, {.effort = 0.2});
    EXPECT_EQ(one.error, "");
    EXPECT_EQ(one.lower_bound_bytes, LowerBound(problem));
    EXPECT_EQ(FindViolation(problem, one.placement), std::nullopt);
    EXPECT_EQ(Solve(problem, {.threads = 3, .effort = 0.2}).placement, one.placement) << "seed " << seed;
  }
}

TEST(Segments, StepsOfAnyLengthComeCloseToTheBound) {
  for (const std::uint64_t seed : {1, 2}) {
    for (const Bytes longest : {1, 16, 4096}) {
      const Problem problem = LongTrace({.longest = longest, .optimizer = seed % 2 == 0}, seed);
      const Solution solution = Solve(problem, {.effort = 0.2});
      EXPECT_LE(Ratio(solution), 1.0005) << "seed " << seed << ", up to " << longest;
    }
  }
}

TEST(Segments, KnowsFixedBlocksAndAlignment) {
  Problem problem = LongTrace({.layers = 12}, 5);
  const Time last =
      std::max_element(problem.requests.begin(), problem.requests.end(), [](const auto& a, const auto& b) {
        return a.end < b.end;
      })->end;
  problem.alignment_bytes = 512;
  problem.fixed = {{Bytes{3} << 20, 700, 0, last},                        // stands through all segments
                   {Bytes{9} << 20, Bytes{1} << 20, last / 3, last / 2},  // begins and ends within some
                   {Bytes{40} << 20, 4096, last / 2, last / 2 + 1}};
  const Solution solution = Solve(problem, {.effort = 0.2});
  EXPECT_EQ(solution.error, "");
  EXPECT_EQ(FindViolation(problem, solution.placement), std::nullopt);
  EXPECT_LE(Ratio(solution), 1.02);
}

TEST(Segments, OrderOfRequestsInTheProblemIsOfNoAccount) {
  Problem problem = LongTrace({.layers = 12}, 6);
  std::shuffle(problem.requests.begin(), problem.requests.end(), std::mt19937_64(6));
  const Solution solution = Solve(problem);
  EXPECT_EQ(FindViolation(problem, solution.placement), std::nullopt);
  EXPECT_LE(Ratio(solution), 1.0005);
}

TEST(Segments, TimeWithoutAPlaceForACutIsPlannedWhole) {
  // At every moment as much lives as at any other, so that nearly all of it lives on wherever one cuts.
  std::mt19937_64 random(7);
  Problem problem;
  for (Time i = 0; i < 41000; ++i) problem.requests.push_back({1 + random() % 1000, i, i + 200, 0});
  const Solution solution = Solve(problem, {.effort = 0});
  EXPECT_EQ(FindViolation(problem, solution.placement), std::nullopt);
  EXPECT_NE(solution.method, "segments");
}

}  // namespace
}  // namespace stalloc::planner
