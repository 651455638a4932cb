// Two contexts of one device, over the simulated device, where nothing executes before it is waited for.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device_memory.h"
#include "simcuda/device.h"
#include "simcuda/driver_table.h"
#include "simcuda/extensions.h"

namespace stalloc::runtime {

class DeviceContexts : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = kPageBytes;

  DeviceContexts() {
    simcuda::Reset({.seed = 0});
    SIMCUDA_FILL_DRIVER_TABLE(driver_, STALLOC_DRIVER_FUNCTIONS);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary_, 0), CUDA_SUCCESS);
    Enter(primary_);
    // One page is all there is: memory of another stream is the only memory.
    memory_ = std::make_unique<DeviceMemory>(driver_, 0, 0, MemoryPolicy{.limit_bytes = kBytes});
    EXPECT_EQ(memory_->Initialise(), CUDA_SUCCESS);
    memory_->NoteContext(primary_, primary_, kPrimary);
    made_ = Make(kMade);
  }
  ~DeviceContexts() override {
    std::string text(simcudaFirstCorruption(nullptr, 0) + 1, '\0');
    simcudaFirstCorruption(text.data(), text.size());
    EXPECT_EQ(simcudaCorruptions(), 0u) << text;
  }

  static void Enter(CUcontext context) { EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS); }
  static void Synchronise(CUcontext context) {
    Enter(context);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  CUcontext Make(DeviceMemory::Owner owner = DeviceMemory::kNoOwner) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    memory_->NoteContext(context, context, owner);
    return context;
  }

  // The driver ends `context`, whose end the memory knows by `ending`, and makes another one with the same handle.
  CUcontext EndAndComeBack(CUcontext context, DeviceMemory::Ending ending) {
    EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
    memory_->ContextHasEnded(ending);
    const CUcontext next = Make();
    EXPECT_EQ(next, context) << "the test needs a handle that comes back";
    return next;
  }
  static CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }

  // All memory, written and still to be read when it is freed: on a stream of the current context.
  void UseAll(DeviceMemory::Order order) {
    const auto block = memory_->Allocate(kBytes, order, 0);
    ASSERT_EQ(block.result, CUDA_SUCCESS);
    const std::uint64_t tag = ++tag_;
    EXPECT_EQ(simcudaWriteTag(order.stream, block.address, kBytes, tag), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(order.stream), CUDA_SUCCESS);
    // Many: who asks whether a stream is idle lets it go on by one.
    for (int i = 0; i < 32; ++i) EXPECT_EQ(simcudaReadTag(order.stream, block.address, kBytes, tag), CUDA_SUCCESS);
    EXPECT_EQ(memory_->Free(block.address, order), CUDA_SUCCESS);
  }
  // Work that nobody has waited for yet.
  static void QueueIn(CUcontext context) {
    Enter(context);
    EXPECT_EQ(cuLaunchHostFunc(
                  nullptr, [](void*) {}, nullptr),
              CUDA_SUCCESS);
  }
  // What is left of one operation in each of `contexts` when a block of `owner` is freed without a stream.
  std::size_t PendingAfterFree(DeviceMemory::Owner owner, const std::vector<CUcontext>& contexts, CUcontext current) {
    Enter(current);
    const auto block = memory_->Allocate(kBytes, std::nullopt, 0, nullptr, owner);
    EXPECT_EQ(block.result, CUDA_SUCCESS);
    for (const CUcontext context : contexts) QueueIn(context);
    Enter(current);
    EXPECT_EQ(memory_->Free(block.address, std::nullopt), CUDA_SUCCESS);
    const std::size_t pending = simcudaPendingOperations();
    for (const CUcontext context : contexts) Synchronise(context);
    return pending;
  }
  std::uint64_t HostWaits() const { return simcudaCallCount("cuCtxSynchronize"); }

  static constexpr DeviceMemory::Owner kPrimary = 1, kMade = 2, kGreen = 3;

  DriverApi driver_;
  CUcontext primary_ = nullptr;
  CUcontext made_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  std::uint64_t tag_ = 0;
};

}  // namespace stalloc::runtime
