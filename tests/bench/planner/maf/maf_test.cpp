// The suite against what is known of it: the equations of the fronts, at optimal points made by hand and at all sampled
// ones, and that nothing dominates a sampled point.
#include "maf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "maf_parts.h"
#include "planner/many_objective.h"

namespace stalloc::bench {
namespace {

double Unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// A point of the front: positions at random, the rest where its part of the objectives is least.
std::vector<double> OptimalPoint(int number, const MafProblem& problem, std::mt19937_64& random) {
  const std::size_t m = problem.objectives();
  std::vector<double> x(problem.variables());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = problem.lower()[i] + Unit(random) * (problem.upper()[i] - problem.lower()[i]);
  }
  if (number <= 6) std::fill(x.begin() + static_cast<std::ptrdiff_t>(m) - 1, x.end(), 0.5);
  if (number == 7) {
    std::fill(x.begin() + static_cast<std::ptrdiff_t>(m) - 1, x.end(), 0);
    for (std::size_t i = 0; i + 1 < m; ++i) x[i] *= 0.25;  // in the first piece
  }
  if (number == 8 || number == 9) {
    const double radius = 0.3 * Unit(random);
    const double angle = 2 * std::numbers::pi * Unit(random);
    x = {radius * std::cos(angle), radius * std::sin(angle)};
  }
  if (number == 10 || number == 11) {
    for (std::size_t i = m - 1; i < x.size(); ++i) x[i] = 0.35 * problem.upper()[i];
  }
  if (number == 12) {
    // Each is 0.35 once its dependence on the mean of those after it is undone (WFG paper, section VIII).
    double after = 0;
    for (std::size_t i = x.size(); i-- > m - 1;) {
      const auto count = static_cast<double>(x.size() - 1 - i);
      const double z = count == 0 ? 0.35 : std::pow(0.35, 1 / (0.02 + 1.96 * after / count));
      x[i] = z * problem.upper()[i];
      after += z;
    }
  }
  if (number == 13) {
    for (std::size_t j = 2; j < 5; ++j) {
      x[j] = 2 * x[1] * std::sin(2 * std::numbers::pi * x[0] + static_cast<double>(j + 1) * std::numbers::pi / 5);
    }
  }
  return x;
}

// What is zero on the front and nowhere above it.
double Equation(int number, std::span<const double> f) {
  const std::size_t m = f.size();
  double sum = 0;
  for (std::size_t k = 0; k < m; ++k) {
    const double twos = std::ldexp(1.0, static_cast<int>(k) + 1);
    const double falling = std::ldexp(1.0, static_cast<int>(m - k));
    const double even = 2 * static_cast<double>(k + 1);
    switch (number) {
      case 1:
      case 15:
        sum += number == 1 ? 1 - f[k] : (1 - f[k]) * (1 - f[k]);
        break;
      case 2:
      case 6:
        sum += f[k] * f[k];
        break;
      case 3:
        sum += k + 1 == m ? f[k] : std::sqrt(f[k]);
        break;
      case 4:
        sum += (1 - f[k] / twos) * (1 - f[k] / twos);
        break;
      case 5:
        sum += f[k] * f[k] / (falling * falling);
        break;
      case 7:
        sum += k + 1 == m ? f[k] / (2 * static_cast<double>(m))
                          : f[k] * (1 + std::sin(3 * std::numbers::pi * f[k])) / (2 * static_cast<double>(m));
        break;
      case 12:
        sum += f[k] * f[k] / (even * even);
        break;
      case 13:
        sum += k < 3 ? f[k] * f[k] : 0;
        break;
      case 14:
        sum += f[k];
        break;
      default:
        return 0;
    }
  }
  return sum - 1;
}

class Maf : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  const int number_ = std::get<0>(GetParam());
  const std::size_t objectives_ = std::get<1>(GetParam());
  const std::unique_ptr<MafProblem> problem_ = MakeMaf(number_, objectives_);
  std::mt19937_64 random_{17};
};

TEST_P(Maf, HasTheFrontThatItsEquationSays) {
  const Points front = problem_->SampleFront(1000);
  ASSERT_GT(front.rows(), 90u);
  for (std::size_t i = 0; i < front.rows(); ++i) EXPECT_NEAR(Equation(number_, front[i]), 0, 1e-5);
  if (number_ >= 14) return;  // their optimal points depend on the first position; see LinkedVariables
  std::vector<double> f(objectives_);
  for (int i = 0; i < 100; ++i) {
    problem_->Evaluate(OptimalPoint(number_, *problem_, random_), f);
    EXPECT_NEAR(Equation(number_, f), 0, 1e-9);
  }
}

// Near-optimal points find a hole in a front more easily than random ones.
TEST_P(Maf, HasNoPointThatDominatesTheSampledFront) {
  const Points front = problem_->SampleFront(300);
  std::vector<double> f(objectives_);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> x = OptimalPoint(number_, *problem_, random_);
    if (i % 2 == 1) {
      const std::size_t k = random_() % x.size();
      x[k] = problem_->lower()[k] + Unit(random_) * (problem_->upper()[k] - problem_->lower()[k]);
    }
    problem_->Repair(x, random_);
    problem_->Evaluate(x, f);
    for (double& value : f) value += 1e-3 * std::abs(value) + 1e-6;  // the samples are as exact as their steps
    for (std::size_t k = 0; k < front.rows(); ++k) {
      ASSERT_FALSE(planner::Dominates(f, front[k])) << "point " << i << " dominates sample " << k;
    }
  }
}

// Optimal points lie near samples: the samples leave out no part of the front.
TEST_P(Maf, IsSampledWhereverItIs) {
  if (number_ >= 14) return;
  if (number_ == 10 || number_ == 11) return;  // random positions crowd into a corner of these
  const Points front = problem_->SampleFront(10000);
  Points found{objectives_, {}};
  std::vector<double> f(objectives_);
  std::vector<double> reach(objectives_, 0);
  for (std::size_t i = 0; i < front.rows(); ++i) {
    for (std::size_t k = 0; k < objectives_; ++k) reach[k] = std::max(reach[k], front[i][k]);
  }
  double worst = 0;
  for (int i = 0; i < 50; ++i) {
    problem_->Evaluate(OptimalPoint(number_, *problem_, random_), f);
    double nearest = 1e300;
    for (std::size_t row = 0; row < front.rows(); ++row) {
      double gap = 0;
      for (std::size_t k = 0; k < objectives_; ++k) gap = std::max(gap, std::abs(f[k] - front[row][k]) / reach[k]);
      nearest = std::min(nearest, gap);
    }
    worst = std::max(worst, nearest);
  }
  EXPECT_LT(worst, objectives_ == 3 ? 0.05 : 0.35);
}

INSTANTIATE_TEST_SUITE_P(All, Maf, testing::Combine(testing::Range(1, kMafProblems + 1), testing::Values(3u, 5u, 10u)),
                         [](const auto& made) {
                           return std::to_string(std::get<0>(made.param)) + "With" +
                                  std::to_string(std::get<1>(made.param));
                         });

// With the first position at 0 the links vanish at 0: MaF15's groups, and MaF14's of Rastrigin, are least there.
TEST(LinkedVariables, AreOptimalTogether) {
  for (const std::size_t m : {3u, 5u, 10u}) {
    const auto problem = MakeMaf(15, m);
    std::vector<double> x(problem->variables(), 0);
    std::vector<double> f(m);
    for (std::size_t i = 1; i + 1 < m; ++i) x[i] = 0.3;
    problem->Evaluate(x, f);
    EXPECT_NEAR(Equation(15, f), 0, 1e-12);
    // At another first position everything moves along.
    x[0] = 0.5;
    problem->Evaluate(x, f);
    EXPECT_GT(f[0] + f[1], 2.0) << "the groups are off now";
    for (std::size_t j = m - 1; j < x.size(); ++j) {
      x[j] = 5 / (1 + std::cos(static_cast<double>(j + 1) / static_cast<double>(x.size()) * std::numbers::pi / 2));
    }
    problem->Evaluate(x, f);
    EXPECT_NEAR(Equation(15, f), 0, 1e-12);
  }
}

TEST(Maf9, ForbidsTheMirrorImagesOfItsSides) {
  const auto problem = MakeMaf(9, 5);
  std::mt19937_64 random(1);
  // The star's arms of a pentagon reach about 2.6 times as far as its corners; the image lies behind the arm's tip.
  const double angle = std::numbers::pi / 2 - std::numbers::pi / 5;
  int moved = 0;
  for (double radius = 0; radius < 6; radius += 0.1) {
    std::vector<double> x = {radius * std::cos(angle), radius * std::sin(angle)};
    const std::vector<double> before = x;
    problem->Repair(x, random);
    if (x != before) {
      ++moved;
      EXPECT_GT(radius, std::cos(std::numbers::pi / 5)) << "the polygon itself is allowed";
    }
  }
  EXPECT_GT(moved, 5);
}

TEST(SimplexLattice, HasThePublishedSizes) {
  EXPECT_EQ(SimplexLattice(240, 5).rows(), 210u);
  EXPECT_EQ(SimplexLattice(240, 10).rows(), 230u);
  const Points points = SimplexLattice(100, 3);
  EXPECT_EQ(points.rows(), 91u);
  for (std::size_t i = 0; i < points.rows(); ++i) {
    EXPECT_NEAR(points[i][0] + points[i][1] + points[i][2], 1, 1e-5);
  }
}

TEST(InvertedGenerationalDistance, IsTheMeanGapToTheNearest) {
  const Points front{2, {0, 1, 1, 0}};
  EXPECT_DOUBLE_EQ(InvertedGenerationalDistance(front, {2, {0, 1, 4, 4}}), std::sqrt(2.0) / 2);
  EXPECT_DOUBLE_EQ(InvertedGenerationalDistance(front, front), 0);
  EXPECT_TRUE(std::isinf(InvertedGenerationalDistance(front, {2, {}})));
}

}  // namespace
}  // namespace stalloc::bench
