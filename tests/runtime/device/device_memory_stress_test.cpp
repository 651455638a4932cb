// DeviceMemory under random requests, streams and plans, over the model driver: two live blocks never share a byte,
// memory is never reused before the work that could still touch it, and little more is held than what is live.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

// Random programs: several streams that lag, frees on other streams and without a stream, waits of the program's own,
// failures, trims. Whatever happens, the model finds no early reuse and no shared byte.
class DeviceMemoryStress : public DeviceMemoryTest, public ::testing::WithParamInterface<int> {};

TEST_P(DeviceMemoryStress, NeverSharesAByteAndNeverReusesEarly) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto pick = [&](std::size_t n) { return random() % n; };
  const std::size_t streams = 1 + pick(4);
  device_.total_bytes = 256 * kMiB;
  // By itself, in a program that does nothing but map, or as far as it is told.
  const std::size_t tenths = pick(4);
  auto memory = Make({.growth = tenths < 3 ? std::optional(1.0 + 0.1 * static_cast<double>(tenths)) : std::nullopt,
                      .clock_ns = [&] { return device_.calls["cuMemMap"] * 30'000; }});
  std::vector<Live> live;
  for (int step = 0; step < 1500; ++step) {
    const std::uintptr_t s = pick(streams);
    if (live.empty() || pick(100) < 52) {
      static constexpr std::size_t kSizes[] = {1, 700, 4096, 300'000, 2 * kMiB, 3'000'000, 9 * kMiB, 17 * kMiB};
      const std::size_t bytes = kSizes[pick(std::size(kSizes))] + pick(600);
      if (pick(12) == 0) {
        static constexpr const char* kFunctions[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuEventCreate",
                                                     "cuEventRecord"};
        device_.fail_function = kFunctions[pick(std::size(kFunctions))];
        device_.fail_at = device_.calls[device_.fail_function] + 1 + pick(3);
      }
      const bool ordered = pick(20) != 0;
      const auto made = ordered ? memory->Allocate(bytes, On(s), 0) : memory->Allocate(bytes, std::nullopt, 0);
      device_.fail_function.clear();
      if (made.result != CUDA_SUCCESS) continue;
      // Without an order the block may be used on any stream at once.
      const std::uintptr_t user = ordered ? s : pick(streams);
      device_.Touch(Stream(user), made.address, bytes, made.number);
      live.push_back({made.address, bytes, made.number});
    } else {
      const std::size_t i = pick(live.size());
      const Live block = live[i];
      live[i] = live.back();
      live.pop_back();
      if (pick(15) == 0) {
        EXPECT_EQ(memory->Free(block.address, std::nullopt), CUDA_SUCCESS);
      } else {
        // The program orders the freeing stream behind every use, as CUDA asks of it.
        for (std::uintptr_t other = 0; other < streams; ++other)
          if (other != s) OrderBehind(memory.get(), s, other);
        EXPECT_EQ(memory->Free(block.address, On(s)), CUDA_SUCCESS);
      }
    }
    if (pick(4) == 0) device_.Execute(Stream(pick(streams)), 1 + pick(30));
    if (pick(200) == 0) memory->Trim(pick(64) * kMiB);
    if (pick(300) == 0) memory->ReleaseIdle();
    if (step % 100 == 0) ExpectDisjoint(device_, live);
    ASSERT_TRUE(device_.errors.empty()) << "seed " << GetParam() << " step " << step << ": " << device_.errors.front();
  }
  ExpectDisjoint(device_, live);
  EXPECT_EQ(device_.used_bytes, memory->Counters().reserved_bytes);
}

// A plan is advice, and may be as bad as it likes: slots that overlap, waits where there is nothing to wait for and
// none where there is. The program repeats itself on several streams that lag, and orders them now and then.
TEST_P(DeviceMemoryStress, APlanCannotMakeItShareAByteOrReuseEarly) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t streams = 1 + pick(3);
  auto memory = Make();
  struct Step {
    std::size_t request;
    bool free;
  };
  std::vector<std::uint64_t> sizes;
  std::vector<std::uintptr_t> on;
  std::vector<Step> steps;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < 24; ++i) {
    sizes.push_back(1 + pick(6 * kMiB));
    on.push_back(pick(streams));
    steps.push_back({i, false});
    open.push_back(i);
    while (!open.empty() && pick(2) == 0) {
      const std::size_t k = pick(open.size());
      steps.push_back({open[k], true});
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (const std::size_t i : open) steps.push_back({i, true});

  std::vector<Live> live(sizes.size());
  for (int iteration = 0; iteration < 40; ++iteration) {
    if (iteration % 10 == 1) {
      auto plan = PlanOf(sizes, static_cast<std::uint64_t>(iteration) * sizes.size() + 1);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        BlockPlace& slot = plan->slots[i];
        if (pick(4) == 0) {
          slot.kind = BlockPlace::Kind::kPages;
          std::vector<PageNumber> pages(24);
          std::iota(pages.begin(), pages.end(), 0);
          std::shuffle(pages.begin(), pages.end(), random);
          slot.begin = static_cast<Granule>(pick(2) * pick(kPageGranules));
          slot.pages.assign(pages.begin(), pages.begin() + PagesUnder(slot.begin, GranulesOf(sizes[i])));
        } else {
          slot.kind = BlockPlace::Kind::kRun;
          slot.begin = static_cast<Granule>(pick(20 * kPageGranules));
        }
        plan->order[i] = {pick(2) == 0, pick(2) == 0};
      }
      ASSERT_TRUE(memory->Install(plan, PlanFollower::When::kNow));
    }
    for (const Step& step : steps) {
      const auto order = On(on[step.request]);
      Live& block = live[step.request];
      if (step.free) {
        EXPECT_EQ(memory->Free(block.address, order), CUDA_SUCCESS);
        block.bytes = 0;
      } else {
        const auto made = memory->Allocate(sizes[step.request], order, 0);
        ASSERT_EQ(made.result, CUDA_SUCCESS);
        device_.Touch(order.stream, made.address, sizes[step.request], made.number);
        block = {made.address, sizes[step.request], made.number};
      }
      if (pick(6) == 0) device_.Execute(Stream(pick(streams)), 1 + pick(10));
      const std::uintptr_t waiting = pick(streams);
      const std::uintptr_t other = pick(streams);
      if (waiting != other && pick(4) == 0) OrderBehind(memory.get(), waiting, other);
      ASSERT_TRUE(device_.errors.empty()) << "seed " << GetParam() << ": " << device_.errors.front();
    }
    if (iteration % 8 == 3) memory->Trim(0);
    std::vector<Live> now;
    std::copy_if(live.begin(), live.end(), std::back_inserter(now), [](const Live& block) { return block.bytes != 0; });
    ExpectDisjoint(device_, now);
  }
  EXPECT_GT(memory->Counters().planned_requests, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceMemoryStress, ::testing::Range(1, 41));

}  // namespace
}  // namespace stalloc::runtime
