#include "runtime/pages/last_frees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "runtime/pages/free_space.h"

namespace stalloc::runtime {
namespace {

using Known = std::optional<Fence>;

// What is said of each granule of `run`.
std::vector<Known> Ask(const LastFrees& frees, Run run) {
  std::vector<Known> said;
  frees.VisitPieces(run, [&](Run piece, const Fence* fence) {
    EXPECT_EQ(piece.begin, run.begin + said.size());
    said.resize(piece.end - run.begin, fence != nullptr ? Known(*fence) : std::nullopt);
  });
  EXPECT_EQ(said.size(), run.length());
  return said;
}

std::vector<std::tuple<Granule, StreamIndex, std::uint64_t>> Exact(const FreeSpace& space, Run run) {
  std::vector<std::tuple<Granule, StreamIndex, std::uint64_t>> seen;
  space.VisitExact(run, [&](Run piece, Fence fence) { seen.emplace_back(piece.end, fence.stream, fence.position); });
  return seen;
}

// Against an array with an entry for each granule; `most_runs` is now ample, now so small that it forgets, and then it
// may only say less.
TEST(LastFrees, SaysOfEachGranuleWhichFreeWasItsLast) {
  constexpr Granule kGranules = 300;
  for (const std::size_t most_runs : {std::size_t{1000}, std::size_t{16}}) {
    std::mt19937 random(7);
    LastFrees frees(kGranules, most_runs);
    std::vector<Known> model(kGranules);
    bool forgot = false;
    for (std::uint64_t step = 1; step <= 3000; ++step) {
      const Granule begin = static_cast<Granule>(random() % kGranules);
      const Granule end = begin + 1 + static_cast<Granule>(random() % std::min<Granule>(40, kGranules - begin));
      const bool absent = random() % 10 == 0;
      const Fence fence = absent ? Fence{kAbsent, 0} : Fence{static_cast<StreamIndex>(random() % 3), step};
      frees.Note({begin, end}, fence);
      for (Granule g = begin; g < end; ++g) model[g] = absent ? std::nullopt : Known(fence);
      ASSERT_LE(frees.runs(), most_runs);
      const std::vector<Known> said = Ask(frees, {0, kGranules});
      for (Granule g = 0; g < kGranules; ++g) {
        if (!said[g] && model[g]) forgot = true;
        if (said[g]) {
          ASSERT_TRUE(model[g] && *said[g] == *model[g]) << "granule " << g << " at step " << step;
        }
      }
    }
    EXPECT_EQ(forgot, most_runs < kGranules);
  }
}

TEST(LastFrees, ABlockThatComesAndGoesTakesNoRoom) {
  LastFrees frees(1000);
  for (std::uint64_t i = 1; i <= 100; ++i) frees.Note({100, 200}, {1, i});
  EXPECT_EQ(frees.runs(), 3u);
  frees.Note({0, 1000}, {2, 1});
  EXPECT_EQ(frees.runs(), 1u);
}

// [a: freed at 1][b: freed at 9] is one room of position 9; who asks for a alone has 1 to be behind.
TEST(FreeSpaceExact, ARunIsNotTaintedByTheFreeOfItsNeighbour) {
  FreeSpace space(4 * kPageGranules);
  space.Claim({0, 4 * kPageGranules});
  space.RememberFrees();
  space.Release({0, 100}, {1, 1});
  space.Release({100, 300}, {1, 9});
  EXPECT_EQ(space.BestFit(300, 1), (runtime::Run{0, 300})) << "still one room";
  EXPECT_EQ(space.BestFit(50, 1, 0, 8), std::nullopt);
  using Seen = std::vector<std::tuple<Granule, StreamIndex, std::uint64_t>>;
  EXPECT_EQ(Exact(space, {0, 100}), (Seen{{100, 1, 1}}));
  EXPECT_EQ(Exact(space, {50, 200}), (Seen{{100, 1, 1}, {200, 1, 9}}));

  // Taken and given back by another stream.
  space.Claim({0, 50});
  space.Release({0, 50}, {2, 4});
  EXPECT_EQ(Exact(space, {0, 300}), (Seen{{50, 2, 4}, {100, 1, 1}, {300, 1, 9}}));
  // What has passed is everybody's, whoever freed it.
  space.Pass(1, 9);
  EXPECT_EQ(Exact(space, {50, 300}), (Seen{{300, kNoStream, 0}}));
}

// What was freed while there was no order to keep belongs to the first stream once there is a second.
TEST(FreeSpaceExact, WhatIsFencedAnewIsNotJudgedByWhatWasKnown) {
  FreeSpace space(kPageGranules);
  space.Claim({0, kPageGranules});
  space.RememberFrees();
  space.Release({0, 100}, Fence{});
  space.RefenceAll(kNoStream, {1, 5});
  using Seen = std::vector<std::tuple<Granule, StreamIndex, std::uint64_t>>;
  EXPECT_EQ(Exact(space, {0, 100}), (Seen{{100, 1, 5}}));
}

// What was freed before the memory was asked to remember is judged by its room.
TEST(FreeSpaceExact, AnOlderFreeIsJudgedByItsRoom) {
  FreeSpace space(kPageGranules);
  space.Claim({0, kPageGranules});
  space.Release({0, 100}, {1, 1});
  space.RememberFrees();
  space.Release({100, 200}, {1, 9});
  using Seen = std::vector<std::tuple<Granule, StreamIndex, std::uint64_t>>;
  EXPECT_EQ(Exact(space, {0, 200}), (Seen{{100, 1, 9}, {200, 1, 9}}));
}

}  // namespace
}  // namespace stalloc::runtime
