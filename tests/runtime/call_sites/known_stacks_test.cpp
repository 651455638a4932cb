// A stack that is found again without a walk is the stack that was walked: stacks that differ in one call only, that
// end in the same place, and whose frames change their size.
#include "call_sites/known_stacks.h"

#include <alloca.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/call_sites/call_site.h"

namespace stalloc::runtime {
namespace {

constexpr int kDepth = 7;  // all of a path, and not what called it

// Follows `path`, one call a letter: 'a' and 'b' are two places in one function, so the stacks of all paths of one
// length end in the same place; 'v' is a frame whose size the path's length decides.
[[gnu::noinline]] std::uint64_t Follow(const char* path) {
  std::uint64_t result = 0;
  if (*path == 'a') {
    result = Follow(path + 1);
    asm volatile("nop");
  } else if (*path == 'b') {
    result = Follow(path + 1);
    asm volatile("nop; nop");
  } else if (*path == 'v') {
    auto* room = static_cast<volatile char*>(alloca(64 + 48 * std::char_traits<char>::length(path)));
    room[0] = *path;
    result = Follow(path + 1);
    asm volatile("nop; nop; nop");
  } else {
    result = CallSiteHash(kDepth);
  }
  asm volatile("");
  return result;
}

// One place, whatever the compiler makes of the loop that calls it.
[[gnu::noinline]] std::uint64_t FollowOnce(const char* path) {
  const std::uint64_t result = Follow(path);
  asm volatile("");
  return result;
}

std::string RandomPath(std::mt19937& random, const char* letters, std::size_t length) {
  std::string path;
  while (path.size() < length) path += letters[random() % std::char_traits<char>::length(letters)];
  return path;
}

class KnownStacksTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(LoadUnwinder(), Unwinder::kNone); }

  // Each path gets the number that it got when it was first seen, and no two the same.
  static void ExpectOneNumberEach(const char* letters, std::size_t shortest, std::size_t longest) {
    std::mt19937 random(1);
    std::map<std::string, std::uint64_t> numbers;
    for (int i = 0; i < 30000; ++i) {
      const std::string path = RandomPath(random, letters, shortest + random() % (longest - shortest + 1));
      const std::uint64_t number = Follow(path.c_str());
      ASSERT_NE(number, 0U);
      const auto [known, is_new] = numbers.emplace(path, number);
      ASSERT_EQ(known->second, number) << path << (is_new ? "" : ", seen before");
    }
    std::set<std::uint64_t> different;
    for (const auto& [path, number] : numbers) different.insert(number);
    EXPECT_EQ(different.size(), numbers.size());
  }
};

TEST_F(KnownStacksTest, StacksThatEndInTheSamePlaceAreToldApart) { ExpectOneNumberEach("ab", 6, 6); }

TEST_F(KnownStacksTest, FramesThatChangeTheirSizeAreToldApart) { ExpectOneNumberEach("abv", 4, 6); }

TEST_F(KnownStacksTest, ThreadsBeyondTheTablesWalk) {
  const std::string path = "abba";
  std::vector<std::uint64_t> numbers(40);
  std::vector<std::thread> threads;
  for (std::uint64_t& number : numbers) {
    threads.emplace_back([&] {
      std::set<std::uint64_t> seen;
      for (int i = 0; i < 100; ++i) seen.insert(FollowOnce(path.c_str()));
      number = seen.size() == 1 ? *seen.begin() : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t number : numbers) EXPECT_EQ(number, numbers.front());
  EXPECT_NE(numbers.front(), 0U);
}

// A stack of two frames, made by hand.
struct HandMade {
  std::array<std::uintptr_t, 8> words = {0, 11, 0, 22, 0, 0, 0, 0};
  KnownStacks::Where Place(std::uint64_t hint = 0) const {
    return {reinterpret_cast<std::uintptr_t>(words.data()), hint, 4};
  }
  std::array<std::uintptr_t, 2> slots{reinterpret_cast<std::uintptr_t>(&words[1]),
                                      reinterpret_cast<std::uintptr_t>(&words[3])};
};

TEST_F(KnownStacksTest, IsFoundOnlyWhileEveryReturnAddressIsWhereItWas) {
  auto known = std::make_unique<KnownStacks>();
  HandMade stack;
  known->Remember(stack.Place(), stack.slots.data(), 2, 77);
  EXPECT_EQ(known->Find(stack.Place()), 77U);
  EXPECT_EQ(known->Find(stack.Place(1)), 77U) << "a hint is no more than that";
  stack.words[2] = 5;
  EXPECT_EQ(known->Find(stack.Place()), 77U) << "what lies between does not matter";
  stack.words[3] = 23;
  EXPECT_EQ(known->Find(stack.Place()), 0U) << "another caller";
  stack.words[3] = 22;
  EXPECT_EQ(known->Find(stack.Place()), 77U);
}

// Many that end in one place, and hints that never come twice: each is itself.
TEST_F(KnownStacksTest, StacksOfOnePlaceNeedNoHint) {
  auto known = std::make_unique<KnownStacks>();
  HandMade stack;
  constexpr std::uintptr_t kCallers = 20;
  for (std::uintptr_t caller = 1; caller <= kCallers; ++caller) {
    stack.words[3] = caller;
    known->Remember(stack.Place(caller), stack.slots.data(), 2, 100 + caller);
  }
  std::mt19937 random(1);
  for (std::uint64_t hint = 1000; hint < 3000; ++hint) {
    const std::uintptr_t caller = 1 + random() % kCallers;
    stack.words[3] = caller;
    ASSERT_EQ(known->Find(stack.Place(hint)), 100 + caller);
  }
  stack.words[3] = kCallers + 1;
  EXPECT_EQ(known->Find(stack.Place()), 0U);
}

// A frame of another size lies elsewhere: what was read to refuse one stack says nothing of this one.
TEST_F(KnownStacksTest, AStackThatLiesOtherwiseIsLookedAtWhole) {
  auto known = std::make_unique<KnownStacks>();
  HandMade near;
  known->Remember(near.Place(), near.slots.data(), 2, 77);
  HandMade far = near;
  std::array<std::uintptr_t, 2> slots{reinterpret_cast<std::uintptr_t>(&near.words[1]),
                                      reinterpret_cast<std::uintptr_t>(&near.words[5])};
  near.words[3] = 0;
  near.words[5] = 44;
  known->Remember(near.Place(), slots.data(), 2, 88);
  EXPECT_EQ(known->Find(near.Place()), 88U);
  near.words = far.words;
  EXPECT_EQ(known->Find(near.Place()), 77U);
}

TEST_F(KnownStacksTest, WhatIsNotOneStackIsNotRemembered) {
  auto known = std::make_unique<KnownStacks>();
  HandMade stack;
  std::swap(stack.slots[0], stack.slots[1]);
  known->Remember(stack.Place(), stack.slots.data(), 2, 77);
  EXPECT_EQ(known->Find(stack.Place()), 0U);
}

TEST_F(KnownStacksTest, SlowWalksEndUnlessStacksAreFound) {
  auto known = std::make_unique<KnownStacks>();
  int walks = 0;
  while (known->PayForWalk() && walks < 1'000'000) ++walks;
  EXPECT_LT(walks, 1'000'000);
  HandMade stack;
  known->Remember(stack.Place(), stack.slots.data(), 2, 77);
  for (int i = 0; i < 1000 && !known->PayForWalk(); ++i) EXPECT_EQ(known->Find(stack.Place()), 77U);
  EXPECT_FALSE(known->PayForWalk()) << "one walk for many that were found";
}

}  // namespace
}  // namespace stalloc::runtime
