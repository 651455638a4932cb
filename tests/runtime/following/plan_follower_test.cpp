// PlanFollower by itself: what it proposes, when a plan takes over, and that no plan is looked at without the lock.
#include "runtime/following/plan_follower.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device_memory_fixture.h"
#include "host_memory.h"

namespace stalloc::runtime {
namespace {

class PlanFollowerTest : public ::testing::Test {
 protected:
  // A plan of these sizes, one after the other from granule `from` on.
  static std::shared_ptr<PlanInForce> PlanFrom(const std::vector<std::uint64_t>& sizes, Granule from = 0) {
    auto plan = PlanOf(sizes, 1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      plan->slots[i].kind = BlockPlace::Kind::kRun;
      plan->slots[i].begin = from;
      from += GranulesOf(sizes[i]);
    }
    return plan;
  }
  // What is proposed for the request, which is served there, or anywhere.
  PlanFollower::Proposal Propose(PlanFollower& follower, std::uint64_t size_bytes, std::uint64_t call_site = 0) {
    const PlanFollower::Proposal proposal = follower.Ask({size_bytes, GranulesOf(size_bytes), call_site});
    ++(proposal.place != nullptr ? counters_.planned_requests : counters_.online_requests);
    return proposal;
  }
  // Where the request is to lie; nullopt: nowhere in particular.
  static std::optional<Granule> BeginOf(const PlanFollower::Proposal& proposal) {
    if (proposal.place == nullptr) return std::nullopt;
    return proposal.place->begin;
  }
  std::optional<Granule> Ask(std::uint64_t size_bytes, std::uint64_t call_site = 0) {
    return BeginOf(Propose(follower_, size_bytes, call_site));
  }

  FreeSpace space_{64 * kPageGranules};
  ViewTable views_{64 * kPageBytes};
  MemoryCounters counters_;
  PageStore::Cost cost_;
  PlanFollower follower_{space_, views_, counters_, cost_};
};

TEST_F(PlanFollowerTest, ProposesThePlacesOfThePlanInForce) {
  EXPECT_EQ(Ask(512), std::nullopt);
  const std::vector<std::uint64_t> sizes = {512, 4096, 1024};
  follower_.Install(PlanFrom(sizes), PlanFollower::When::kNow);
  Ask(sizes[1]);  // the plan's first iteration began with allocation 1
  Ask(sizes[2]);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(512), 0U);
    EXPECT_EQ(Ask(4096), 1U);
    EXPECT_EQ(Ask(1024), 9U);
  }
  EXPECT_EQ(follower_.counters().matched_requests, 11U);
  EXPECT_EQ(Ask(700), std::nullopt) << "the plan does not know it";
  EXPECT_GE(follower_.iterations().completed(), 3U);
}

// Training steps have a plan; of three steps and an evaluation the next one is. Until its iteration begins, the
// evaluation has its slots, and the steps those of the plan in force.
TEST_F(PlanFollowerTest, WhatThePlanInForceDoesNotKnowHasASlotOfTheNext) {
  const std::vector<std::uint64_t> step = {512, 4096, 1024};
  const std::vector<std::uint64_t> evaluation = {8192, 2048, 16384, 3072};
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 3; ++i) all.insert(all.end(), step.begin(), step.end());
  all.insert(all.end(), evaluation.begin(), evaluation.end());

  for (const bool scales : {false, true}) {
    PlanFollower follower(space_, views_, counters_, cost_);
    counters_ = {};
    const auto ask = [&](std::uint64_t size_bytes) {
      const PlanFollower::Proposal proposal = Propose(follower, size_bytes);
      EXPECT_EQ(proposal.is_slot, proposal.place != nullptr);
      return BeginOf(proposal);
    };
    ask(512);
    follower.Install(PlanFrom(step), PlanFollower::When::kNow);
    auto next = PlanFrom(all, 1000);
    if (scales) next->scaled.resize(all.size());
    follower.Install(next, PlanFollower::When::kNextIteration);
    for (std::size_t i = 1; i < 9; ++i) EXPECT_EQ(ask(step[i % 3]), (std::vector<Granule>{0, 1, 9}[i % 3])) << i;
    const std::uint64_t known = follower.counters().matched_requests;
    for (std::size_t i = 9; i + 1 < all.size(); ++i) {
      const auto slot = scales ? std::nullopt : std::optional(next->slots[i].begin);
      EXPECT_EQ(ask(all[i]), slot) << "its room is not known before it is in force, if it scales";
    }
    EXPECT_EQ(follower.counters().matched_requests, known + (scales ? 0 : evaluation.size() - 1));
    EXPECT_TRUE(follower.awaiting_iteration());
    ask(all.back());
    EXPECT_FALSE(follower.awaiting_iteration()) << "its iteration is at an end, and the next begins";
    if (!scales) {
      EXPECT_EQ(ask(512), 1000U);
    }
  }
}

// Images of many sizes: most requests of an iteration are small and the same, those that differ are most of the memory.
TEST_F(PlanFollowerTest, ANextPlanThatSpeaksOfSomethingElseHasNoSlots) {
  const std::vector<std::uint64_t> step = {512, 4096, 1024};
  std::vector<std::uint64_t> next = step;
  for (std::uint64_t i = 0; i < 20; ++i) next.push_back(8192 + 512 * i);
  Ask(512);
  follower_.Install(PlanFrom(step), PlanFollower::When::kNow);
  follower_.Install(PlanFrom(next, 1000), PlanFollower::When::kNextIteration);
  Ask(4096);
  Ask(1024);
  EXPECT_EQ(Ask(next[3]), 1011U);
  for (std::uint64_t i = 0; i < 5; ++i) Ask((100 + i) * kPageBytes);
  EXPECT_EQ(Ask(next[4]), std::nullopt) << "five large ones that it does not know";
  for (std::size_t i = 5; i < 11; ++i) Ask(next[i]);
  EXPECT_NE(Ask(next[11]), std::nullopt) << "eight in a row that it knows";
  for (std::uint64_t i = 0; i < 9; ++i) Ask((100 + i) * kPageBytes);
  EXPECT_EQ(Ask(next[12]), std::nullopt);
  follower_.Install(PlanFrom(next, 2000), PlanFollower::When::kNextIteration);
  const std::uint64_t number = counters_.planned_requests + counters_.online_requests + 1;
  EXPECT_NE(Ask(next[(number - 1) % next.size()]), std::nullopt) << "another plan, of which nothing is known yet";
}

// What the plan in force knows but has no slot for (it lives on) has rooms there, or lies anywhere.
TEST_F(PlanFollowerTest, WhatThePlanInForceKnowsHasNoSlotOfTheNext) {
  for (const bool rooms : {false, true}) {
    counters_ = {};
    PlanFollower follower(space_, views_, counters_, cost_);
    auto plan = PlanFrom({512, 4096, 1024});
    plan->slots[1] = {};
    if (rooms) plan->rooms = {{}, {{20, 30}}, {}};
    Propose(follower, 512);
    follower.Install(plan, PlanFollower::When::kNow);
    follower.Install(PlanFrom({512, 4096, 1024, 8192}, 1000), PlanFollower::When::kNextIteration);
    const std::uint64_t known = follower.counters().matched_requests;
    const PlanFollower::Proposal proposal = Propose(follower, 4096);
    EXPECT_EQ(proposal.place, nullptr);
    EXPECT_EQ(proposal.rooms.size(), rooms ? 1U : 0U);
    EXPECT_EQ(follower.counters().matched_requests, known + 1);
  }
}

// Where there was no plan, blocks lie anywhere: in its slots they would be in each other's way.
TEST_F(PlanFollowerTest, WithoutAPlanInForceTheNextHasNoSlotsYet) {
  EXPECT_EQ(Ask(512), std::nullopt);
  follower_.Install(PlanFrom({512, 4096, 1024}), PlanFollower::When::kNextIteration);
  EXPECT_EQ(Ask(4096), std::nullopt);
  EXPECT_EQ(Ask(1024), 9U) << "with the last request the iteration is over and the plan in force";
  EXPECT_EQ(Ask(512), 0U);
}

TEST_F(PlanFollowerTest, CallSitesAreWantedOfWhatIsNotExpected) {
  EXPECT_FALSE(follower_.WantsCallSite(4096)) << "without a plan of large requests alone";
  EXPECT_TRUE(follower_.WantsCallSite(PlanFollower::kLargeBytes));
  follower_.Install(PlanFrom({4096, 8192}), PlanFollower::When::kNow);
  EXPECT_FALSE(follower_.WantsCallSite(4096));
  EXPECT_TRUE(follower_.WantsCallSite(8192));
  Ask(4096);
  EXPECT_TRUE(follower_.WantsCallSite(4096));
  EXPECT_FALSE(follower_.WantsCallSite(8192));
  EXPECT_TRUE(follower_.WantsCallSite(std::uint64_t{1} << 50)) << "no plan expects that";

  auto settling = PlanFrom({4096});
  settling->persistent_left = 1;
  settling->persistent[PlanInForce::PersistentKey(7, 512)].places = {{0, {}, 0}};
  follower_.Install(settling, PlanFollower::When::kNow);
  EXPECT_TRUE(follower_.WantsCallSite(4096)) << "what is kept is told by its call site";
  Ask(512, 7);
  EXPECT_FALSE(follower_.WantsCallSite(4096)) << "nothing is still to come";

  follower_.Install(nullptr, PlanFollower::When::kNow);
  EXPECT_FALSE(follower_.WantsCallSite(4096));
  EXPECT_TRUE(follower_.WantsCallSite(PlanFollower::kLargeBytes));
}

// The most plans that requests retire before anybody can take them: one that gives way, and all others where none is in
// force any more.
TEST_F(PlanFollowerTest, RequestsRetirePlansIntoRoomThatIsThere) {
  for (std::uint64_t kind = 1; kind <= 8; ++kind) {
    follower_.KeepPlanInForce();
    follower_.Install(PlanFrom({kind * 4096, kind * 8192}), PlanFollower::When::kNow);
  }
  follower_.KeepPlanInForce();
  follower_.Install(nullptr, PlanFollower::When::kNow);
  PlanFollower::Plans retired;
  retired.reserve(PlanFollower::kMostRetired);
  const std::size_t room = retired.capacity();
  follower_.TakeRetired(&retired);
  ASSERT_FALSE(retired.empty());
  const std::uint64_t before = follower_.retirements();
  for (int i = 0; i < (1 << 15); ++i) Ask(100);
  EXPECT_GT(follower_.retirements(), before);
  EXPECT_LE(follower_.retirements() - before, room);
}

// A choice among more plans than requests ever retire ends without host memory, and all at once.
TEST_F(PlanFollowerTest, AChoiceEndsWithoutHostMemory) {
  constexpr std::size_t kPlans = 4 * PlanFollower::kMostRetired;
  PlanFollower::Plans plans;
  for (std::uint64_t i = 1; i <= kPlans; ++i) plans.push_back(PlanFrom({i * 4096, i * 8192}));
  follower_.StartFrom(std::move(plans));
  Ask(4096);
  PlanFollower::Plans retired;
  retired.reserve(PlanFollower::kMostRetired);
  follower_.TakeRetired(&retired);
  ASSERT_TRUE(follower_.choice());
  {
    const HostMemory memory(0);
    follower_.EndChoice();
  }
  EXPECT_FALSE(follower_.choice());
  EXPECT_EQ(follower_.retirements(), kPlans - 1);
  EXPECT_EQ(follower_.in_force().requests, 2U) << "the plan in force stays";
  retired.reserve(PlanFollower::kMostRetired);
  follower_.TakeRetired(&retired);
  EXPECT_EQ(retired.size(), kPlans - 1);
}

// Under a sanitizer this fails where a plan is looked at without the lock: each is freed while others ask.
TEST_F(PlanFollowerTest, PlansComeAndGoWhileOthersAskForCallSites) {
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> wanted{0};
  std::thread asks([&] {
    while (!done.load()) wanted += follower_.WantsCallSite(4096) ? 1 : 0;
  });
  PlanFollower::Plans retired;
  for (int i = 0; i < 2000 || wanted.load() == 0; ++i) {
    std::weak_ptr<PlanInForce> made;
    {
      auto plan = PlanFrom({8192, 4096});
      made = plan;
      follower_.Install(std::move(plan), PlanFollower::When::kNow);
    }
    Ask(8192);
    Ask(4096);
    follower_.Install(nullptr, PlanFollower::When::kNow);
    retired.reserve(PlanFollower::kMostRetired);
    follower_.TakeRetired(&retired);
    retired.clear();
    ASSERT_TRUE(made.expired());
  }
  done = true;
  asks.join();
}

}  // namespace
}  // namespace stalloc::runtime
