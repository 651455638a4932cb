#include "planner/validate.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/lower_bound.h"
#include "planner/problem_check.h"

namespace stalloc::planner {
namespace {

//  bytes
//   30 +---------+
//      |    1    |          0: [0, 4) at 0..10
//   10 +----+----+----+     1: [0, 4) at 10..30
//      |    0    | 2  |     2: [4, 6) at 0..10
//    0 +----+----+----+
//      0    2    4    6  time
Problem ThreeBlocks() {
  Problem problem;
  problem.requests = {{10, 0, 4, 0}, {20, 0, 4, 0}, {10, 4, 6, 0}};
  return problem;
}

TEST(Validate, AcceptsBlocksThatOnlyTouch) { EXPECT_EQ(FindViolation(ThreeBlocks(), {{0, 10, 0}, 30}), std::nullopt); }

TEST(Validate, SeesOverlap) {
  EXPECT_NE(FindViolation(ThreeBlocks(), {{0, 9, 0}, 29}), std::nullopt);
  EXPECT_NE(FindViolation(ThreeBlocks(), {{10, 0, 0}, 20}), std::nullopt);
  EXPECT_NE(FindViolation(ThreeBlocks(), {{5, 5, 0}, 25}), std::nullopt) << "equal offsets";
}

TEST(Validate, SeesWrongCountHeightAndCapacity) {
  EXPECT_NE(FindViolation(ThreeBlocks(), {{0, 10}, 30}), std::nullopt);
  EXPECT_NE(FindViolation(ThreeBlocks(), {{0, 10, 0}, 29}), std::nullopt);
  Problem small = ThreeBlocks();
  small.capacity_bytes = 29;
  EXPECT_NE(FindViolation(small, {{0, 10, 0}, 30}), std::nullopt);
}

TEST(Validate, SeesMisalignmentAndOverflow) {
  Problem problem = ThreeBlocks();
  problem.alignment_bytes = 4;
  EXPECT_NE(FindViolation(problem, {{0, 10, 0}, 30}), std::nullopt);
  EXPECT_EQ(FindViolation(problem, {{0, 12, 0}, 32}), std::nullopt);
  EXPECT_NE(FindViolation(ThreeBlocks(), {{0, std::numeric_limits<Bytes>::max() - 3, 0}, 30}), std::nullopt);
}

TEST(Validate, SeesOverlapAcrossThePeriod) {
  Problem problem;
  problem.period = 10;
  problem.requests = {{10, 8, 12, 0}, {10, 1, 3, 0}, {10, 2, 8, 0}};
  EXPECT_NE(FindViolation(problem, {{0, 0, 20}, 30}), std::nullopt) << "request 0 lives on until 2 of the next turn";
  EXPECT_EQ(FindViolation(problem, {{0, 10, 0}, 20}), std::nullopt);
  problem.requests = {{10, 5, 15, 0}, {10, 3, 4, 0}};
  EXPECT_NE(FindViolation(problem, {{0, 0}, 10}), std::nullopt) << "request 0 lives for the whole period";
}

TEST(Validate, SeesFixedBlocks) {
  Problem problem = ThreeBlocks();
  problem.fixed = {{5, 1}};
  EXPECT_NE(FindViolation(problem, {{0, 10, 10}, 30}), std::nullopt);
  problem.fixed = {{5, 1, 4, 5}};
  EXPECT_NE(FindViolation(problem, {{0, 10, 0}, 30}), std::nullopt);
  EXPECT_EQ(FindViolation(problem, {{0, 10, 6}, 30}), std::nullopt);
  problem.period = 6;
  problem.fixed = {{25, 1, 11, 13}};  // lives in [5, 6) and [0, 1)
  EXPECT_NE(FindViolation(problem, {{0, 10, 0}, 30}), std::nullopt);
  EXPECT_EQ(FindViolation(problem, {{0, 26, 0}, 46}), std::nullopt);
}

TEST(LowerBound, CountsFixedBlocksOnlyWhereTheyAreInTheWay) {
  Problem problem = ThreeBlocks();
  EXPECT_EQ(LowerBound(problem), 30u);
  problem.fixed = {{100, 50}};
  EXPECT_EQ(LowerBound(problem), 30u);
  EXPECT_EQ(PeakLive(problem), 80u);
  problem.fixed = {{10, 5}};
  EXPECT_EQ(LowerBound(problem), 35u);
  problem.fixed = {{10, 5, 4, 6}};
  EXPECT_EQ(LowerBound(problem), 30u);
}

TEST(LowerBound, CountsAlignmentBelowTheTopBlock) {
  Problem problem;
  problem.alignment_bytes = 16;
  problem.requests = {{1, 0, 2, 0}, {17, 0, 2, 0}};
  EXPECT_EQ(LowerBound(problem), 33u);  // 1 at 32, or 17 at 16
}

TEST(LowerBound, GoesAroundTheCircle) {
  Problem problem;
  problem.period = 10;
  problem.requests = {{10, 8, 12, 0}, {10, 1, 3, 0}, {5, 2, 8, 0}};
  EXPECT_EQ(LowerBound(problem), 20u);
}

TEST(ProblemCheck, NamesWhatIsWrong) {
  Problem problem = ThreeBlocks();
  EXPECT_EQ(FindMalformed(problem), std::nullopt);
  problem.alignment_bytes = 3;
  EXPECT_NE(FindMalformed(problem), std::nullopt);
  problem = ThreeBlocks();
  problem.requests[1].size_bytes = 0;
  EXPECT_EQ(FindMalformed(problem), "request 1: size is zero");
  problem = ThreeBlocks();
  problem.requests[2].end = problem.requests[2].begin;
  EXPECT_EQ(FindMalformed(problem), "request 2: ends before it begins");
  problem = ThreeBlocks();
  problem.period = 3;
  EXPECT_EQ(FindMalformed(problem), "request 0: lives longer than the period");
  problem = ThreeBlocks();
  problem.requests[0].size_bytes = kMaxTotalBytes;
  EXPECT_EQ(FindMalformed(problem), "request 1: sizes add up to more than 2^62 bytes");
  problem = ThreeBlocks();
  problem.requests[0].begin = std::numeric_limits<Time>::min();
  problem.requests[0].end = std::numeric_limits<Time>::max();
  EXPECT_EQ(FindMalformed(problem), "request 0: lifetime is too long");
  problem = ThreeBlocks();
  problem.fixed = {{kUnlimited, 1}};
  EXPECT_EQ(FindMalformed(problem), "fixed block 0: ends beyond 2^62 bytes");
}

}  // namespace
}  // namespace stalloc::planner
