// What becomes of memory and plans that change in the middle of something for which the lock is released: while a
// plan's views are mapped, while pages are given back, while a request's memory is mapped.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device_memory_fixture.h"
#include "runtime/learning/plan_problem.h"

namespace stalloc::runtime {
namespace {

class PlanMeanwhile : public DeviceMemoryTest {
 protected:
  void SetUp() override {
    DeviceMemoryTest::SetUp();
    driver_ = api_;
    api_.cuMemMap = [](CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags) {
      Act(&while_mapping_);
      return driver_.cuMemMap(address, bytes, offset, handle, flags);
    };
    api_.cuCtxSynchronize = [] {
      Act(&while_waiting_);
      return driver_.cuCtxSynchronize();
    };
  }
  void TearDown() override {
    EXPECT_FALSE(while_mapping_ || while_waiting_) << "it was never the time for it";
    while_mapping_ = while_waiting_ = nullptr;
    DeviceMemoryTest::TearDown();
  }

  // A plan of blocks of so many pages each, the first of them allocation `first`.
  static std::shared_ptr<PlanInForce> InPages(const std::vector<std::vector<PageNumber>>& slots, std::uint64_t first) {
    std::vector<std::uint64_t> sizes;
    for (const std::vector<PageNumber>& pages : slots) sizes.push_back(pages.size() * kPageBytes);
    auto plan = PlanOf(sizes, first);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      plan->slots[i].kind = BlockPlace::Kind::kPages;
      plan->slots[i].pages = slots[i];
    }
    return plan;
  }
  // So many pages, nothing in them.
  static void HoldIdle(DeviceMemory* memory, std::size_t pages) {
    const auto block = memory->Allocate(pages * kPageBytes, On(0), 0);
    ASSERT_EQ(memory->Free(block.address, On(0)), CUDA_SUCCESS);
  }
  // Each page that is held is held once.
  void ExpectHeldOnce(const DeviceMemory& memory) { EXPECT_EQ(device_.used_bytes, memory.Counters().reserved_bytes); }
  // All of a plan's requests, each served in its slot and used.
  void Iterate(DeviceMemory* memory, const std::vector<std::uint64_t>& pages) {
    for (const std::uint64_t count : pages) {
      const auto block = memory->Allocate(count * kPageBytes, On(0), 0);
      EXPECT_TRUE(block.planned);
      device_.Touch(Stream(0), block.address, count * kPageBytes, block.number);
      EXPECT_EQ(memory->Free(block.address, On(0)), CUDA_SUCCESS);
    }
  }

  static inline std::function<void()> while_mapping_, while_waiting_;  // once, at the next such call

 private:
  static void Act(std::function<void()>* act) {
    if (*act) std::exchange(*act, nullptr)();
  }
  static inline DriverApi driver_;
};

TEST_F(PlanMeanwhile, PagesThatAPlansViewIsMadeOfAreNotGivenBack) {
  auto memory = Make();
  HoldIdle(memory.get(), 4);
  while_mapping_ = [&] { EXPECT_EQ(memory->Trim(0), 2 * kPageBytes) << "the other two"; };
  ASSERT_TRUE(memory->Install(InPages({{3, 1}}, 2), PlanFollower::When::kNow));
  ExpectHeldOnce(*memory);
  const auto mapped = memory->Counters().map_calls;
  Iterate(memory.get(), {2});
  EXPECT_EQ(memory->Counters().map_calls, mapped);
  ExpectHeldOnce(*memory);
}

// A trim has claimed all pages, and waits for work that may still use the view which it has dropped.
TEST_F(PlanMeanwhile, PagesThatAreBeingGivenBackAreNotMapped) {
  auto memory = Make();
  ASSERT_TRUE(memory->Install(InPages({{0, 2}}, 1), PlanFollower::When::kNow));
  HoldIdle(memory.get(), 4);
  Iterate(memory.get(), {2});
  ASSERT_EQ(memory->Counters().views, 1u);
  while_waiting_ = [&] { ASSERT_TRUE(memory->Install(InPages({{3, 1}}, 3), PlanFollower::When::kNow)); };
  EXPECT_EQ(memory->Trim(0), 4 * kPageBytes);
  EXPECT_EQ(memory->Counters().views, 0u);
  ExpectHeldOnce(*memory);
  Iterate(memory.get(), {2});
  ExpectHeldOnce(*memory);
}

// Of two views that a plan needs one is there. While the other is mapped the first goes.
TEST_F(PlanMeanwhile, AViewThatATrimDropsIsLookedForAgain) {
  auto memory = Make();
  HoldIdle(memory.get(), 6);
  ASSERT_TRUE(memory->Install(InPages({{3, 1}}, 2), PlanFollower::When::kNow));
  ASSERT_TRUE(memory->Install(nullptr, PlanFollower::When::kNow));
  ASSERT_EQ(memory->Counters().views, 1u);
  const auto plan = InPages({{3, 1}, {5, 4}}, 2);
  while_mapping_ = [&] { EXPECT_EQ(memory->Trim(0), 4 * kPageBytes); };
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  EXPECT_EQ(plan->slots[0].view, kNoView);
  EXPECT_NE(plan->slots[1].view, kNoView);
  for (int i = 0; i < 2; ++i) Iterate(memory.get(), {2, 2});
  ExpectHeldOnce(*memory);
}

// Two plans whose sizes scale, with room for nothing: where a request lies that was asked of the first says nothing of
// the second's.
TEST_F(PlanMeanwhile, ARequestThatThePlanBeforeWasAskedForIsNotNotedInTheNext) {
  auto memory = Make();
  (void)memory->Allocate(2 * kPageBytes, On(0), 0);
  const auto scaling = [](std::uint64_t first) {
    auto plan = PlanOf({2 * kPageBytes}, first);
    plan->slots[0].kind = BlockPlace::Kind::kRun;
    plan->scaled.resize(1);
    plan->task = std::make_shared<PlanningTask>();
    return plan;
  };
  const auto noted_at = [&] { return memory->ScaledPlan()->slots.at(0).online_begin; };
  ASSERT_TRUE(memory->Install(scaling(2), PlanFollower::When::kNow));
  while_mapping_ = [&] { ASSERT_TRUE(memory->Install(scaling(3), PlanFollower::When::kNow)); };
  EXPECT_FALSE(memory->Allocate(2 * kPageBytes, On(0), 0).planned);
  ASSERT_TRUE(memory->ScaledPlan().has_value());
  EXPECT_EQ(noted_at(), 0u);
  EXPECT_FALSE(memory->Allocate(2 * kPageBytes, On(0), 0).planned);
  EXPECT_EQ(noted_at(), 4 * kPageGranules) << "asked of it, and noted";
}

}  // namespace
}  // namespace stalloc::runtime
