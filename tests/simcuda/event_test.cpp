// Events mark positions in streams.
#include "simulated_device.h"

namespace stalloc::simcuda {
namespace {

class Events : public LazyDevice {};

TEST_F(Events, APositionPassesWhenItsWorkHasExecuted) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream();
  const CUevent event = MakeEvent();
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS) << "never recorded";
  for (int i = 0; i < 3; ++i) simcudaWriteTag(stream, block, 64, 1);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  simcudaWriteTag(stream, block, 64, 1);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(simcudaPendingOperations(), 1u) << "what came after the record is not waited for";
}

TEST_F(Events, QueriesMakeProgressUntilItPasses) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream();
  const CUevent event = MakeEvent();
  for (int i = 0; i < 10; ++i) simcudaWriteTag(stream, block, 64, 1);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  int polls = 0;
  while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) ASSERT_LT(++polls, 1000);
  EXPECT_GT(polls, 0);
}

TEST_F(Events, AWaitIsForTheRecordThatWasThereWhenItWasQueued) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream a = MakeStream(), b = MakeStream();
  const CUevent event = MakeEvent();
  simcudaWriteTag(a, block, 64, 1);
  ASSERT_EQ(cuEventRecord(event, a), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
  simcudaWriteTag(a, block, 64, 2);
  ASSERT_EQ(cuEventRecord(event, a), CUDA_SUCCESS);
  simcudaReadTag(b, block, 64, 1);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u) << FirstCorruption();
  EXPECT_EQ(simcudaPendingOperations(), 2u);
}

TEST_F(Events, ADestroyedEventStillHoldsBackItsWaiters) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream a = MakeStream(), b = MakeStream();
  const CUevent event = MakeEvent();
  simcudaWriteTag(a, block, 64, 5);
  ASSERT_EQ(cuEventRecord(event, a), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  simcudaReadTag(b, block, 64, 5);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  EXPECT_EQ(simcudaCorruptions(), 0u);
}

TEST_F(Events, ElapsedTimeIsTheDevicesWork) {
  const CUdeviceptr block = Allocate(kPage);
  const CUstream stream = MakeStream();
  const CUevent start = MakeEvent(CU_EVENT_DEFAULT), end = MakeEvent(CU_EVENT_DEFAULT);
  const simcudaRange write{block, 64, 1};
  ASSERT_EQ(cuEventRecord(start, stream), CUDA_SUCCESS);
  simcudaLaunch(stream, nullptr, 0, &write, 1, 3'000'000);
  ASSERT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  ASSERT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_NEAR(milliseconds, 3.0, 0.01);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, MakeEvent()), CUDA_ERROR_INVALID_HANDLE) << "without timing";
}

}  // namespace
}  // namespace stalloc::simcuda
