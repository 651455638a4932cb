// A DeviceMemory over the model driver, for its tests: streams by number, plans by sizes, and the check that no two
// live blocks share a byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model_test.h"
#include "runtime/device/device_memory.h"

namespace stalloc::runtime {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

inline CUstream Stream(std::uintptr_t n) { return reinterpret_cast<CUstream>(n * 16); }
inline DeviceMemory::Order On(std::uintptr_t n) { return {Stream(n), nullptr}; }

class DeviceMemoryTest : public ModelTest {
 protected:
  void TearDown() override {
    ModelTest::TearDown();
    DeviceMemory::captures_in_progress = 0;
  }
  std::unique_ptr<DeviceMemory> Make(MemoryPolicy policy = {}) {
    auto memory = std::make_unique<DeviceMemory>(api_, 0, 0, policy);
    EXPECT_EQ(memory->Initialise(), CUDA_SUCCESS);
    return memory;
  }
  // So many blocks of a page each, side by side.
  std::vector<CUdeviceptr> Pages(DeviceMemory* memory, int count, std::uint64_t call_site = 0) {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(memory->Allocate(2 * kMiB, On(0), call_site).address);
    return blocks;
  }
  // The program orders one stream behind what another has been given so far.
  void OrderBehind(DeviceMemory* memory, std::uintptr_t waiting, std::uintptr_t other) {
    CUevent event = nullptr;
    api_.cuEventCreate(&event, 0);
    const DeviceMemory::Record record = memory->NoteEventRecords(event, On(other));
    api_.cuEventRecord(event, Stream(other));
    memory->NoteEventRecorded(event, On(other), record);
    api_.cuStreamWaitEvent(Stream(waiting), event, 0);
    memory->NoteStreamWaits(On(waiting), event, record);
  }
};

struct Live {
  CUdeviceptr address;
  std::size_t bytes;
  std::uint64_t number;
};

// Live blocks by the physical bytes they occupy, looked up through the model's mappings.
inline void ExpectDisjoint(const model::Device& device, const std::vector<Live>& live) {
  std::map<std::pair<std::uint64_t, std::size_t>, std::pair<std::size_t, std::uint64_t>> runs;  // (page, begin) -> end
  for (const Live& block : live) {
    for (CUdeviceptr page = block.address / model::kPage * model::kPage; page < block.address + block.bytes;
         page += model::kPage) {
      const auto mapped = device.mapped.find(page);
      ASSERT_NE(mapped, device.mapped.end());
      const std::size_t begin = std::max(page, block.address) - page;
      const std::size_t end = std::min(page + model::kPage, block.address + block.bytes) - page;
      const bool inserted = runs.emplace(std::pair{mapped->second, begin}, std::pair{end, block.number}).second;
      ASSERT_TRUE(inserted) << "blocks share a byte";
    }
  }
  for (auto it = runs.begin(); it != runs.end(); ++it) {
    const auto next = std::next(it);
    if (next == runs.end() || next->first.first != it->first.first) continue;
    ASSERT_LE(it->second.first, next->first.second)
        << "blocks " << it->second.second << " and " << next->second.second << " share a byte";
  }
}

// A pattern of these sizes, one after the other, the first of them allocation `first`; slots and order are to be filled
// in. Their call sites are unknown, or numbered from `first_site` on.
inline std::shared_ptr<PlanInForce> PlanOf(const std::vector<std::uint64_t>& sizes, std::uint64_t first,
                                           std::uint64_t first_site = 0) {
  Pattern pattern;
  pattern.period = static_cast<std::int64_t>(2 * sizes.size());
  pattern.first_block = first;
  pattern.last_block = first + sizes.size();
  pattern.exact = true;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PatternRequest r;
    r.size_bytes = sizes[i];
    r.call_site = first_site == 0 ? 0 : first_site + i;
    r.begin = static_cast<std::int64_t>(2 * i);
    r.end = r.begin + 1;
    pattern.requests.push_back(r);
  }
  auto plan = std::make_shared<PlanInForce>();
  plan->prepared = Matcher::Prepare(pattern);
  plan->slots.resize(sizes.size());
  plan->order.resize(sizes.size());
  plan->budget_bytes = 256 * kMiB;
  return plan;
}

}  // namespace stalloc::runtime
