// A training loop over the model driver: the memory, its learner and the program that uses them, in one thread, with
// time of its own. Every block is touched when it is made and before it ends; the model tells of memory that two share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "host_memory.h"
#include "model_driver.h"
#include "runtime/learning/learner.h"

namespace stalloc::runtime {

// Blocks that are made once, and a step: layers leave activations behind; on the way back each is freed for a gradient
// that is a little larger, so that it does not fit into the hole.
inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

class TrainingLoop {
 public:
  TrainingLoop(model::Device& device, const DriverApi& api, MemoryPolicy policy, const PlanShelf& shelf = {},
               std::uint64_t configuration = 1, std::uint64_t weight_bytes = 40 * kMebibyte)
      : device_(device), weight_bytes_(weight_bytes), memory_(api, 0, 0, policy) {
    EXPECT_EQ(memory_.Initialise(), CUDA_SUCCESS);
    Learner::Options options;
    options.deadline_ms = 20;
    options.kept_deadline_ms = 20;
    options.shelf = shelf;
    options.configuration = configuration;
    learner_ = std::make_unique<Learner>(memory_, options);
    learner_->StartFromKept();
    MakeWeights();
  }

  // The weights go, and others like them are made.
  void MakeWeightsAnew() {
    for (const Block& weight : weights_) Free(weight);
    weights_.clear();
    MakeWeights();
  }

  // Layers leave activations behind; every other one is freed and made again on the way back, a little larger, so that
  // it does not fit into the hole that the first left. `percent` of the usual batch.
  void Iterate(std::uint64_t percent = 100) {
    const std::uint64_t planned = memory_.Counters().planned_requests;
    std::vector<Block> kept;
    std::vector<Block> freed;
    std::vector<Block> again;
    for (std::uint64_t i = 0; i < 2 * kLayers; ++i)
      (i % 2 == 0 ? kept : freed).push_back(Make(10 * kMebibyte * percent / 100, 200 + i));
    for (const Block& block : freed) Free(block);
    if (loss_bytes != 0) {
      const Block loss = Make(loss_bytes, 400);
      if (loss_.bytes != 0) Free(loss_);
      loss_ = loss;
    }
    for (std::uint64_t i = 0; i < kLayers; ++i) again.push_back(Make(12 * kMebibyte * percent / 100, 300 + i));
    if (at_the_peak) at_the_peak();
    for (const Block& block : kept) Free(block);
    for (const Block& block : again) Free(block);
    EndIteration(planned);
  }

  // The same call sites in every one, but each size drawn anew, as experts' are.
  void IterateExperts() {
    const std::uint64_t planned = memory_.Counters().planned_requests;
    std::vector<Block> kept;
    for (std::uint64_t i = 0; i < kRequests; ++i) kept.push_back(Make(kMebibyte + 512 * (random_() % 8192), 600 + i));
    for (const Block& block : kept) Free(block);
    EndIteration(planned);
  }

  // One block, made and freed again and again.
  void Repeat(int times) {
    for (int i = 0; i < times; ++i) {
      Free(Make(3 * kMebibyte, 900));
      if (i % 200 != 0) continue;
      now_ += std::chrono::milliseconds(200);
      learner_->Step(now_);
    }
  }

  // As where the host is out of memory.
  void GiveUpLearning() {
    const HostMemory memory(0);
    learner_->GiveUp();
  }

  // A block that stays, as optimizers make them after the first iteration.
  void Keep(std::uint64_t bytes, std::uint64_t call_site) { Make(bytes, call_site); }

  // Requests that never come twice.
  void Chance(int requests) {
    for (int i = 0; i < requests; ++i) Free(Make(512 * (1 + random_() % 8192), 10'000 + random_() % 10'000));
  }

  bool Until(PlanStatus::State state) {
    for (int i = 0; i < 100 && learner_->status().state != state; ++i) Iterate();
    return learner_->status().state == state;
  }

  // The choice is looked for on another thread.
  bool UntilThereIsAChoice() {
    for (int i = 0; i < 3000 && learner_->status().choices == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i % 20 == 0) Iterate();
    }
    return learner_->status().choices > 1;
  }

  std::function<void()> at_the_peak;
  std::uint64_t loss_bytes = 0;  // of a block that lives until there is the next iteration's

  DeviceMemory& memory() { return memory_; }
  PlanStatus status() const { return learner_->status(); }
  // Is an iteration being looked for?
  bool watched() const {
    const PlanStatus::State state = status().state;
    return state != PlanStatus::State::kSettled && state != PlanStatus::State::kLeftAlone;
  }
  std::uint64_t held_bytes() const { return memory_.Counters().reserved_bytes; }
  std::uint64_t planned() const { return planned_; }  // in the last iteration
  static constexpr std::uint64_t kLayers = 20;
  static constexpr std::uint64_t kRequests = 3 * kLayers;

 protected:
  struct Block {
    CUdeviceptr address;
    std::uint64_t bytes, number;
  };
  static DeviceMemory::Order Stream() { return {reinterpret_cast<CUstream>(std::uintptr_t{16}), nullptr}; }

  Block Make(std::uint64_t bytes, std::uint64_t call_site) {
    const auto made = memory_.Allocate(bytes, Stream(), call_site);
    EXPECT_EQ(made.result, CUDA_SUCCESS);
    device_.Touch(Stream().stream, made.address, bytes, made.number);
    return {made.address, bytes, made.number};
  }
  void Free(const Block& block) {
    // Its contents are still its own: whoever else wrote there would have been told of by the model.
    device_.Touch(Stream().stream, block.address, block.bytes, block.number);
    EXPECT_EQ(memory_.Free(block.address, Stream()), CUDA_SUCCESS);
  }
  // `planned` is how many requests had been planned when it began.
  void EndIteration(std::uint64_t planned) {
    device_.ExecuteAll();
    planned_ = memory_.Counters().planned_requests - planned;
    now_ += std::chrono::milliseconds(200);
    learner_->Step(now_);
  }

 private:
  void MakeWeights() {
    for (std::uint64_t i = 0; i < 4; ++i) weights_.push_back(Make(weight_bytes_, 100 + i));
  }

  model::Device& device_;
  const std::uint64_t weight_bytes_;
  DeviceMemory memory_;
  std::unique_ptr<Learner> learner_;
  std::vector<Block> weights_;
  Block loss_{};
  PlanChooser::Clock::time_point now_{std::chrono::seconds(1000)};
  std::uint64_t planned_ = 0;
  std::mt19937 random_{1};
};

}  // namespace stalloc::runtime
