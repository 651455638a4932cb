// DeviceMemory with a plan in force: when a request gets its slot, what it waits for, and what is mapped for it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

// Two streams have made a request each; the next two take turns in one slot.
std::shared_ptr<PlanInForce> OneSlotForTwo() {
  auto plan = PlanOf({4 * kMiB, 3 * kMiB}, 3);
  for (BlockPlace& slot : plan->slots) {
    slot.kind = BlockPlace::Kind::kRun;
    slot.begin = kPageGranules;
  }
  return plan;
}

// The plan marks the first one's free, so that the second waits for that and not for what the first has queued since.
TEST_F(DeviceMemoryTest, APlannedSlotWaitsForTheFreeThatThePlanNames) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  auto plan = OneSlotForTwo();
  plan->order[0].waited_for = true;
  plan->order[1].waits = true;
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));

  const auto a = memory->Allocate(4 * kMiB, On(1), 0);
  ASSERT_TRUE(a.planned);
  device_.Touch(Stream(1), a.address, 4 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  const std::uint64_t at_free = device_.submitted[Stream(1)];
  device_.submitted[Stream(1)] += 100;
  const auto b = memory->Allocate(3 * kMiB, On(2), 0);
  EXPECT_TRUE(b.planned);
  EXPECT_EQ(b.address, a.address);
  device_.Touch(Stream(2), b.address, 3 * kMiB, b.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
  EXPECT_EQ(device_.clocks[Stream(2)][Stream(1)], at_free);
}

//  page 1                page 2
//  [a, c: one slot    ] [b                 ]     a, b on one stream, c on another that is ordered behind a's free alone
TEST_F(DeviceMemoryTest, ASlotIsNotRefusedForTheLaterFreeOfItsNeighbour) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  auto plan = PlanOf({2 * kMiB, 2 * kMiB, 2 * kMiB}, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    plan->slots[i].kind = BlockPlace::Kind::kRun;
    plan->slots[i].begin = (i == 1 ? 2 : 1) * kPageGranules;
  }
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  const auto a = memory->Allocate(2 * kMiB, On(1), 0);
  const auto b = memory->Allocate(2 * kMiB, On(1), 0);
  ASSERT_TRUE(a.planned && b.planned);
  device_.Touch(Stream(1), a.address, 2 * kMiB, a.number);
  ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
  OrderBehind(memory.get(), 2, 1);
  device_.Touch(Stream(1), b.address, 2 * kMiB, b.number);
  ASSERT_EQ(memory->Free(b.address, On(1)), CUDA_SUCCESS);

  const auto c = memory->Allocate(2 * kMiB, On(2), 0);
  EXPECT_TRUE(c.planned);
  EXPECT_EQ(c.address, a.address);
  device_.Touch(Stream(2), c.address, 2 * kMiB, c.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 0u);
  // b's place is not behind b's free.
  const auto d = memory->Allocate(2 * kMiB, On(2), 0);
  ASSERT_EQ(d.address, b.address);
  device_.Touch(Stream(2), d.address, 2 * kMiB, d.number);
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
}

// The iteration with which a plan takes over finds memory as what came before has left it, and waits for that. Later a
// slot is waited for where the plan says so; but it is looked how far the other stream has come.
TEST_F(DeviceMemoryTest, APlannedSlotIsNotWaitedForWhereThePlanDoesNotSaySo) {
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  ASSERT_TRUE(memory->Install(OneSlotForTwo(), PlanFollower::When::kNow));
  const auto iterate = [&](bool executed) {
    const auto a = memory->Allocate(4 * kMiB, On(1), 0);
    EXPECT_TRUE(a.planned);
    device_.Touch(Stream(1), a.address, 4 * kMiB, a.number);
    EXPECT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
    if (executed) device_.ExecuteAll();
    const auto b = memory->Allocate(3 * kMiB, On(2), 0);
    device_.Touch(Stream(2), b.address, 3 * kMiB, b.number);
    EXPECT_EQ(memory->Free(b.address, On(2)), CUDA_SUCCESS);
    device_.ExecuteAll();
    return b.planned;
  };
  EXPECT_TRUE(iterate(false)) << "it takes over";
  EXPECT_EQ(memory->Counters().waits_inserted, 1u);
  EXPECT_FALSE(iterate(false));
  EXPECT_EQ(memory->Counters().slot_busy, 1u);
  const auto waits = memory->Counters().waits_inserted;
  EXPECT_TRUE(iterate(true));
  EXPECT_EQ(memory->Counters().slot_busy, 1u);
  EXPECT_EQ(memory->Counters().waits_inserted, waits);
}

//  pages 0, 1    2    3, 4    5    6 to 8
//  [w: a's slot][ ][b's slot ][ ][          ]     w is not of the iteration and lives on; what has no letter is not
//  free
TEST_F(DeviceMemoryTest, ARequestWhoseSlotIsTakenKeepsNoOtherFromItsSlot) {
  for (const bool together : {true, false}) {
    auto memory = Make();
    std::vector<DeviceMemory::Allocation> before;
    for (const std::uint64_t size : {4 * kMiB, 2 * kMiB, 4 * kMiB, 2 * kMiB, 6 * kMiB})
      before.push_back(memory->Allocate(size, On(1), 0));
    ASSERT_EQ(memory->Free(before[2].address, On(1)), CUDA_SUCCESS);
    ASSERT_EQ(memory->Free(before[4].address, On(1)), CUDA_SUCCESS);
    auto plan = PlanOf({4 * kMiB, 4 * kMiB}, 6);
    for (std::size_t i = 0; i < 2; ++i) {
      plan->slots[i].kind = BlockPlace::Kind::kRun;
      plan->slots[i].begin = (i == 0 ? 0 : 3) * kPageGranules;
    }
    plan->uses = {{0, together ? 3 : 1, 2 * kPageGranules}, {2, 4, 2 * kPageGranules}};
    ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));

    const auto a = memory->Allocate(4 * kMiB, On(1), 0);
    EXPECT_FALSE(a.planned);
    EXPECT_EQ(a.address, before[together ? 4 : 2].address)
        << "the smallest room that b does not want until a has ended";
    if (!together) {
      ASSERT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
    }
    const auto b = memory->Allocate(4 * kMiB, On(1), 0);
    EXPECT_TRUE(b.planned);
    EXPECT_EQ(b.address, before[2].address);
    EXPECT_EQ(memory->Counters().reserved_bytes, 18 * kMiB);
  }
}

// Two rooms, for a block whose like of the iteration before still lives when it is made.
TEST_F(DeviceMemoryTest, ABlockThatOutlivesTheIterationTakesTurnsInItsRooms) {
  auto memory = Make();
  const auto early = memory->Allocate(64 * kMiB, On(0), 0);
  ASSERT_EQ(memory->Free(early.address, On(0)), CUDA_SUCCESS);
  auto plan = PlanOf({4 * kMiB, 4096}, 2);
  plan->slots[0].kind = BlockPlace::Kind::kRun;
  const Granule granules = GranulesOf(4096);
  const Granule rooms[] = {7 * kPageGranules, 5 * kPageGranules + 3};
  plan->rooms.resize(2);
  for (const Granule begin : rooms) plan->rooms[1].push_back({begin, begin + granules});
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  CUdeviceptr before = 0;
  for (int i = 0; i < 6; ++i) {
    const auto slot = memory->Allocate(4 * kMiB, On(0), 0);
    EXPECT_TRUE(slot.planned);
    const auto stays = memory->Allocate(4096, On(0), 0);
    EXPECT_EQ(stays.address, early.address + rooms[i % 2] * std::size_t{kGranuleBytes}) << "iteration " << i;
    EXPECT_FALSE(stays.planned);
    EXPECT_EQ(memory->Free(slot.address, On(0)), CUDA_SUCCESS);
    if (before != 0) {
      EXPECT_EQ(memory->Free(before, On(0)), CUDA_SUCCESS);
    }
    before = stays.address;
  }
}

// The handle of a destroyed stream comes back for a new one; memory freed on the old one must not look like its own.
TEST_F(DeviceMemoryTest, APlannedViewOfPagesThatDidNotExistIsMappedOnce) {
  auto memory = Make();
  auto plan = PlanOf({4 * kMiB}, 1);
  plan->slots[0].kind = BlockPlace::Kind::kPages;
  plan->slots[0].pages = {3, 1};
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  const auto first = memory->Allocate(4 * kMiB, On(0), 0);
  ASSERT_TRUE(first.planned);
  ASSERT_EQ(memory->Free(first.address, On(0)), CUDA_SUCCESS);
  const auto mapped = memory->Counters().map_calls;
  const auto again = memory->Allocate(4 * kMiB, On(0), 0);
  EXPECT_TRUE(again.planned);
  EXPECT_EQ(again.address, first.address);
  EXPECT_EQ(memory->Counters().map_calls, mapped);
}

// Something else than what was planned, of which the plan knows two requests in five.
TEST_F(DeviceMemoryTest, AProgramThatDoesSomethingElseGetsNoPlannedPlaces) {
  auto memory = Make();
  constexpr std::uint64_t kOfPlan = 100;
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < kOfPlan; ++i) sizes.push_back((i + 1) * 4096);
  constexpr std::uint64_t kSite = 1000;
  auto plan = PlanOf(sizes, 1, kSite);
  for (std::uint64_t i = 0; i < kOfPlan; ++i) {
    plan->slots[i].kind = BlockPlace::Kind::kRun;
    plan->slots[i].begin = static_cast<Granule>(i) * kPageGranules;
  }
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  const auto ask = [&](std::uint64_t bytes) {
    const auto made = memory->Allocate(bytes, On(0), kSite - 1 + bytes / 4096);
    device_.Touch(Stream(0), made.address, bytes, made.number);
    EXPECT_EQ(memory->Free(made.address, On(0)), CUDA_SUCCESS);
    return made.planned;
  };
  for (const std::uint64_t bytes : sizes) EXPECT_TRUE(ask(bytes));
  const auto something_else = [&](std::uint64_t from, std::uint64_t to) {
    std::uint64_t planned = 0;
    for (std::uint64_t i = from; i < to; i += 2) {
      planned += ask(sizes[i]) ? 1 : 0;
      planned += ask(sizes[i + 1]) ? 1 : 0;
      for (std::uint64_t k = 1; k <= 3; ++k) EXPECT_FALSE(ask((k * 4096 + i) * 4096));
    }
    return planned;
  };
  (void)something_else(0, 40);  // its first requests may be an iteration's for all that is known
  const auto known = memory->Counters().matched_requests;
  EXPECT_EQ(something_else(40, 60), 0U);
  EXPECT_GT(memory->Counters().matched_requests, known) << "the plan knows some all the same";
  // Back to what was planned, in its middle: a few are enough.
  std::uint64_t online = 0;
  for (std::uint64_t i = 60; i < kOfPlan; ++i) online += ask(sizes[i]) ? 0 : 1;
  EXPECT_LT(online, 12U);
  for (const std::uint64_t bytes : sizes) EXPECT_TRUE(ask(bytes));
}

//  page 0 1 2 3 4 5 6 7
//       . . . . [idle . ]     a plan of four pages, from page 0; what is held lies behind it
TEST_F(DeviceMemoryTest, ABlockThatStaysGetsItsPlaceThoughAsMuchIsHeldElsewhere) {
  auto memory = Make();
  auto plan = PlanOf({512}, 1);
  plan->budget_bytes = 8 * kMiB;
  plan->touched.assign(4, true);
  plan->online_from = 4 * kPageGranules;
  BlockPlace bottom;
  bottom.kind = BlockPlace::Kind::kRun;
  plan->persistent[PlanInForce::PersistentKey(7, 6 * kMiB)].places = {{0, bottom, 0}};
  plan->persistent_left = 1;
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  const auto early = memory->Allocate(8 * kMiB, On(0), 0);
  device_.Touch(Stream(0), early.address, 8 * kMiB, early.number);
  ASSERT_EQ(memory->Free(early.address, On(0)), CUDA_SUCCESS);
  const auto kept = memory->Allocate(6 * kMiB, On(0), 7);
  EXPECT_TRUE(kept.planned);
  EXPECT_EQ(kept.address + 8 * kMiB, early.address);
  EXPECT_EQ(memory->Counters().reserved_bytes, 6 * kMiB) << "the idle pages behind the plan were given back";
  EXPECT_EQ(memory->Counters().peak_reserved_bytes, 8 * kMiB);
}

//  page 0     1     2     3     4     5     6     7
//       [ taken  ]                        [ stays   ]    not at the bottom of what is free, where slots are many
TEST_F(DeviceMemoryTest, ABlockThatStaysButNotInItsPlaceLiesAsHighAsCanBe) {
  auto memory = Make();
  const auto early = memory->Allocate(16 * kMiB, On(0), 0);
  ASSERT_EQ(memory->Free(early.address, On(0)), CUDA_SUCCESS);
  const auto taken = memory->Allocate(3 * kMiB, On(0), 0);
  ASSERT_EQ(taken.address, early.address);
  auto plan = PlanOf({512}, 3);
  BlockPlace bottom;
  bottom.kind = BlockPlace::Kind::kRun;
  plan->persistent[PlanInForce::PersistentKey(7, 4 * kMiB)].places = {{0, bottom, 0}};
  plan->persistent_left = 1;
  ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
  const auto stays = memory->Allocate(4 * kMiB, On(0), 7);
  EXPECT_FALSE(stays.planned);
  EXPECT_EQ(stays.address, early.address + 12 * kMiB);
}

// What is not followed any more is freed by whoever installs the next, or asks for it; never by a request.
TEST_F(DeviceMemoryTest, APlanThatNobodyFollowsIsFreed) {
  auto memory = Make();
  const auto install = [&](PlanFollower::When when) {
    auto plan = PlanOf({4 * kMiB, 3 * kMiB}, 1);
    std::weak_ptr<PlanInForce> seen = plan;
    EXPECT_TRUE(memory->Install(std::move(plan), when));
    return seen;
  };
  const auto iterate = [&] {
    for (const std::uint64_t bytes : {4 * kMiB, 3 * kMiB})
      EXPECT_EQ(memory->Free(memory->Allocate(bytes, On(0), 0).address, On(0)), CUDA_SUCCESS);
  };
  const auto first = install(PlanFollower::When::kNow);
  iterate();
  const auto second = install(PlanFollower::When::kNow);
  EXPECT_TRUE(first.expired());
  const auto third = install(PlanFollower::When::kNextIteration);
  EXPECT_FALSE(second.expired()) << "it is in force";
  for (int i = 0; i < 3; ++i) iterate();
  ASSERT_FALSE(memory->awaiting_iteration());
  EXPECT_FALSE(second.expired()) << "a request must not free it";
  memory->FreeRetiredPlans();
  EXPECT_TRUE(second.expired());
  ASSERT_TRUE(memory->Install(nullptr, PlanFollower::When::kNow));
  EXPECT_TRUE(third.expired());
}

// An evaluation that the plan in force does not know, while that of steps and evaluation awaits its iteration: it is
// served from that plan's slots, one of which is a view, as far as they are free.
TEST_F(DeviceMemoryTest, WhatThePlanInForceDoesNotKnowIsServedFromTheNextPlansSlots) {
  auto memory = Make();
  const std::vector<CUdeviceptr> pages = Pages(memory.get(), 40);
  const auto page_of = [&](int i) { return static_cast<PageNumber>((pages[i] - pages[0]) / kPageBytes); };
  const auto run_at = [&](int i) {
    BlockPlace place;
    place.kind = BlockPlace::Kind::kRun;
    place.begin = page_of(i) * kPageGranules;
    return place;
  };
  const std::vector<std::uint64_t> step = {4 * kMiB, 3 * kMiB};
  auto in_force = PlanOf(step, 41);
  in_force->slots[0] = run_at(0);
  in_force->slots[1] = run_at(2);
  auto next = PlanOf({4 * kMiB, 3 * kMiB, 6 * kMiB, 8 * kMiB, 512}, 41);
  next->slots[2].kind = BlockPlace::Kind::kPages;
  next->slots[2].pages = {page_of(11), page_of(13), page_of(15)};
  next->slots[3] = run_at(20);
  for (const int i : {0, 1, 2, 3, 11, 13, 15, 20, 21, 22})  // of the 8 MiB at 20 a page is still in use
    ASSERT_EQ(memory->Free(pages[i], On(0)), CUDA_SUCCESS);
  ASSERT_TRUE(memory->Install(in_force, PlanFollower::When::kNow));
  ASSERT_TRUE(memory->Install(next, PlanFollower::When::kNextIteration));
  for (const std::uint64_t bytes : step) {
    const auto made = memory->Allocate(bytes, On(0), 0);
    EXPECT_TRUE(made.planned);
    ASSERT_EQ(memory->Free(made.address, On(0)), CUDA_SUCCESS);
  }
  const MemoryCounters before = memory->Counters();
  const auto in_view = memory->Allocate(6 * kMiB, On(0), 0);
  EXPECT_TRUE(in_view.planned);
  EXPECT_EQ(memory->Counters().map_calls, before.map_calls) << "its view was mapped when the plan came";
  device_.Touch(Stream(0), in_view.address, 6 * kMiB, in_view.number);
  const auto elsewhere = memory->Allocate(8 * kMiB, On(0), 0);
  EXPECT_FALSE(elsewhere.planned);
  EXPECT_EQ(memory->Counters().slot_busy, before.slot_busy + 1);
  EXPECT_TRUE(memory->awaiting_iteration());
  ExpectDisjoint(device_,
                 {{in_view.address, 6 * kMiB, in_view.number}, {elsewhere.address, 8 * kMiB, elsewhere.number}});
}

// While a request looks, without the lock, how far another stream has come, its plan goes and is freed.
TEST_F(DeviceMemoryTest, WhatAPlanProposedIsNotTakenOnceThePlanIsFreed) {
  static std::function<void()> meanwhile;
  static decltype(api_.cuStreamQuery) query;
  query = api_.cuStreamQuery;
  api_.cuStreamQuery = [](CUstream stream) {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return query(stream);
  };
  auto memory = Make();
  (void)memory->Allocate(512, On(1), 0);
  (void)memory->Allocate(512, On(2), 0);
  std::weak_ptr<PlanInForce> plan;
  {
    auto made = OneSlotForTwo();
    plan = made;
    ASSERT_TRUE(memory->Install(std::move(made), PlanFollower::When::kNow));
  }
  bool second_planned = true;
  for (const bool freed : {false, true}) {
    const auto a = memory->Allocate(4 * kMiB, On(1), 0);
    EXPECT_TRUE(a.planned);
    device_.Touch(Stream(1), a.address, 4 * kMiB, a.number);
    EXPECT_EQ(memory->Free(a.address, On(1)), CUDA_SUCCESS);
    if (freed) {
      meanwhile = [&] {
        EXPECT_TRUE(memory->Install(nullptr, PlanFollower::When::kNow));
        EXPECT_TRUE(plan.expired());
        device_.ExecuteAll();
      };
    }
    const auto b = memory->Allocate(3 * kMiB, On(2), 0);
    ASSERT_EQ(b.result, CUDA_SUCCESS);
    second_planned = b.planned;
    device_.Touch(Stream(2), b.address, 3 * kMiB, b.number);
    EXPECT_EQ(memory->Free(b.address, On(2)), CUDA_SUCCESS);
    device_.ExecuteAll();
  }
  EXPECT_TRUE(plan.expired()) << "nobody looked how far the other stream had come";
  EXPECT_FALSE(second_planned);
  meanwhile = nullptr;
}

}  // namespace
}  // namespace stalloc::runtime
