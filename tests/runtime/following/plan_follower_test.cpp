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
  // Where the request is to lie; nullopt: nowhere in particular. It is served there, or anywhere.
  std::optional<Granule> Ask(std::uint64_t size_bytes, std::uint64_t call_site = 0) {
    const PlanFollower::Proposal proposal = follower_.Ask({size_bytes, GranulesOf(size_bytes), call_site});
    ++(proposal.place != nullptr ? counters_.planned_requests : counters_.online_requests);
    if (proposal.place == nullptr) return std::nullopt;
    return proposal.place->begin;
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
