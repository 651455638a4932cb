// What the program's events stand for where several threads use a stream or an event at once: never for more than what
// was there when the driver was asked.
#include <gtest/gtest.h>

#include "device_memory_fixture.h"

namespace stalloc::runtime {
namespace {

struct EventRecords : DeviceMemoryTest {
  void SetUp() override {
    DeviceMemoryTest::SetUp();
    memory_ = Make();
    block_ = memory_->Allocate(8 * kMiB, On(1), 0);
    (void)memory_->Allocate(512, On(2), 0);
  }
  DeviceMemory::Record Record() { return memory_->NoteEventRecords(kEvent, On(1)); }
  void Recorded(DeviceMemory::Record record) { memory_->NoteEventRecorded(kEvent, On(1), record); }
  // By another thread.
  void FreeMeanwhile() {
    device_.Touch(Stream(1), block_.address, 8 * kMiB, block_.number);
    ASSERT_EQ(memory_->Free(block_.address, On(1)), CUDA_SUCCESS);
  }
  // Does stream 2 know itself behind the free?
  bool IsBehind() {
    const std::uint64_t waits = memory_->Counters().waits_inserted;
    EXPECT_EQ(memory_->Allocate(8 * kMiB, On(2), 0).address, block_.address);
    return memory_->Counters().waits_inserted == waits;
  }

  static inline const auto kEvent = reinterpret_cast<CUevent>(0x77);
  std::unique_ptr<DeviceMemory> memory_;
  DeviceMemory::Allocation block_;
};

TEST_F(EventRecords, StandForWhatWasFreedBeforeThem) {
  FreeMeanwhile();
  Recorded(Record());
  memory_->NoteStreamWaits(On(2), kEvent, memory_->RecordOf(kEvent));
  EXPECT_TRUE(IsBehind());
}

TEST_F(EventRecords, StandForNothingThatIsFreedWhileTheyAreMade) {
  const DeviceMemory::Record record = Record();
  FreeMeanwhile();
  Recorded(record);
  memory_->NoteStreamWaits(On(2), kEvent, memory_->RecordOf(kEvent));
  EXPECT_FALSE(IsBehind());
}

TEST_F(EventRecords, StandForNothingUntilTheDriverHasMadeThem) {
  FreeMeanwhile();
  const DeviceMemory::Record record = Record();
  const DeviceMemory::Record seen = memory_->RecordOf(kEvent);
  Recorded(record);
  memory_->NoteStreamWaits(On(2), kEvent, seen);
  EXPECT_FALSE(IsBehind());
}

// The wait may be for the record before.
TEST_F(EventRecords, AreNotTakenForThoseBeforeThem) {
  Recorded(Record());
  const DeviceMemory::Record seen = memory_->RecordOf(kEvent);
  FreeMeanwhile();
  Recorded(Record());
  memory_->NoteStreamWaits(On(2), kEvent, seen);
  EXPECT_FALSE(IsBehind());
}

}  // namespace
}  // namespace stalloc::runtime
