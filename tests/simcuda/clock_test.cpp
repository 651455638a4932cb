// The modelled clock: work ends when its time has come, and a host that waits loses that time.
#include <gtest/gtest.h>

#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

constexpr std::uint64_t kMillisecondNs = 1'000'000;

class Clock : public SimulatedDevice {
 protected:
  static Config WithClock() {
    Config config;
    config.clock = true;
    return config;
  }
  Clock() : SimulatedDevice(WithClock()) {}

  static void Work(CUstream stream, std::uint64_t duration_ns) {
    EXPECT_EQ(simcudaLaunch(stream, nullptr, 0, nullptr, 0, duration_ns), CUDA_SUCCESS);
  }
  // How often the event's question is answered "not yet".
  static int AskUntilDone(CUevent event) {
    int asked = 0;
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) ++asked;
    return asked;
  }
};

TEST_F(Clock, AQuestionDoesNotMakeWorkEndEarlier) {
  const CUstream stream = MakeStream();
  const CUevent done = MakeEvent();
  Work(stream, kMillisecondNs);
  ASSERT_EQ(cuEventRecord(done, stream), CUDA_SUCCESS);
  const int asked = AskUntilDone(done);
  EXPECT_GT(asked, 500);
  EXPECT_LT(asked, 1500);
}

TEST_F(Clock, StreamsOverlap) {
  const CUstream first = MakeStream(), second = MakeStream();
  const std::uint64_t start = simcudaVirtualTimeNs();
  Work(first, kMillisecondNs);
  Work(second, kMillisecondNs);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_LT(simcudaVirtualTimeNs() - start, kMillisecondNs * 11 / 10);
  // One behind the other.
  const CUevent done = MakeEvent();
  Work(first, kMillisecondNs);
  ASSERT_EQ(cuEventRecord(done, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, done, 0), CUDA_SUCCESS);
  Work(second, kMillisecondNs);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_GE(simcudaVirtualTimeNs() - start, kMillisecondNs * 3);
}

TEST_F(Clock, WhoWaitsFindsEverythingElseThatHasEndedMeanwhile) {
  const CUstream shorter = MakeStream(), longer = MakeStream();
  const CUevent done = MakeEvent();
  Work(shorter, kMillisecondNs);
  ASSERT_EQ(cuEventRecord(done, shorter), CUDA_SUCCESS);
  Work(longer, 2 * kMillisecondNs);
  EXPECT_EQ(cuEventQuery(done), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamSynchronize(longer), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(done), CUDA_SUCCESS);
}

TEST_F(Clock, TheHostIsHeldBackByAFullQueue) {
  Config config = WithClock();
  config.max_pending = 4;
  Reset(config);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  const CUstream stream = MakeStream();
  for (int i = 0; i < 10; ++i) Work(stream, kMillisecondNs);
  EXPECT_GE(simcudaVirtualTimeNs(), 6 * kMillisecondNs);
  EXPECT_LT(simcudaVirtualTimeNs(), 7 * kMillisecondNs);
}

}  // namespace
}  // namespace stalloc::simcuda
