// ShortLock: one thread at a time, and everybody gets there, whatever the holder does meanwhile.
#include "runtime/base/short_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace stalloc::runtime {
namespace {

// More threads than most machines have cores, so that a holder is now and then descheduled.
constexpr int kThreads = 8;

template <typename Turn>
void InThreads(Turn turn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(turn);
  for (std::thread& thread : threads) thread.join();
}

TEST(ShortLock, LetsOneThreadInAtATime) {
  constexpr std::uint64_t kTurns = 20'000;
  ShortLock lock;
  std::uint64_t first = 0;  // neither is atomic
  std::uint64_t second = 0;
  InThreads([&] {
    for (std::uint64_t i = 0; i < kTurns; ++i) {
      const std::lock_guard guard(lock);
      ASSERT_EQ(first, second);
      ++first;
      ++second;
    }
  });
  EXPECT_EQ(first, kThreads * kTurns);
  EXPECT_EQ(second, kThreads * kTurns);
}

// Long enough that those who wait are past their last pause and take naps.
TEST(ShortLock, IsHadBehindAHolderThatSleeps) {
  ShortLock lock;
  int turns = 0;
  InThreads([&] {
    const std::lock_guard guard(lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ++turns;
  });
  EXPECT_EQ(turns, kThreads);
}

}  // namespace
}  // namespace stalloc::runtime
