// Scripts: made-up training programs as the learner sees them, with call sites, and with the truth that the learner
// does not see: which step a request belongs to, and its name within the step. Header of the recurrence tests.
//
// The call site of a request is that of the operation, the same in every layer: so it is where an interpreter stands
// between the operation and the model.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/recurrence/observation.h"

namespace stalloc::runtime {

struct Truth {
  int step = 0;
  std::uint64_t name = 0;  // unique within the step
};

struct Script {
  std::vector<Observation> observations;
  std::vector<Truth> truths;               // by block
  std::vector<std::uint64_t> sizes_bytes;  // by block

  std::uint64_t Allocate(std::uint64_t call_site, std::uint64_t size_bytes, std::uint32_t stream, Truth truth) {
    Observation o;
    o.op = Observation::Op::kAllocate;
    o.stream = stream;
    o.block = truths.size();
    o.size_bytes = size_bytes;
    o.call_site = call_site;
    observations.push_back(o);
    truths.push_back(truth);
    sizes_bytes.push_back(size_bytes);
    return o.block;
  }

  void Free(std::uint64_t block) {
    Observation o;
    o.op = Observation::Op::kFree;
    o.block = block;
    observations.push_back(o);
  }
};

struct TrainingOptions {
  int steps = 8;
  int layers = 8;
  int accumulation = 1;         // micro-batches in a step
  bool recomputation = false;   // only a layer's input is kept; its activations are made again in the backward pass
  bool keep_gradients = false;  // zeroed in place instead of freed
  int evaluation_every = 0;     // steps; 0: never
  int evaluation_batches = 3;
  int experts = 0;              // a layer, with sizes drawn anew every time; one that gets nothing requests nothing
  bool varying_length = false;  // every step's activations scale with a length
  int log_every = 0;            // steps; an extra request where a value is printed
  bool keep_losses = false;     // a small block more every step
  bool hold_output = false;     // the model's output lives until the next step's is there
  bool prefetch = false;        // a loader thread's requests come in between anywhere, and outlive the step
  bool call_sites = true;
  std::uint32_t seed = 1;
};

class Training {
 public:
  explicit Training(const TrainingOptions& options) : options_(options), random_(options.seed) {
    for (int i = 0; i < 40; ++i) Request(1000 + i, 4096u << (i % 7));  // weights
    for (step_ = 1; step_ <= options.steps; ++step_) Step();
  }

  const Script& script() const { return script_; }

  static constexpr std::uint64_t kOutputBytes = 3u << 20;  // no other request is of this size

 private:
  static constexpr std::uint64_t kSites = 0x5bd1e995;
  static constexpr int kOperations = 9;
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};  // of an expert that got nothing

  std::uint64_t Request(int operation, std::uint64_t size_bytes, std::uint32_t stream = 0) {
    MaybePrefetch();
    return Plain(operation, size_bytes, stream);
  }

  std::uint64_t Plain(int operation, std::uint64_t size_bytes, std::uint32_t stream) {
    const std::uint64_t site = options_.call_sites ? kSites * static_cast<std::uint64_t>(operation + 1) : 0;
    // Requests of a loader thread are counted apart, so that they do not rename the others.
    std::uint64_t& count = stream == 0 ? names_ : loader_names_;
    return script_.Allocate(site, size_bytes, stream, {step_, ++count * 2 + stream});
  }

  void FreeAll(std::vector<std::uint64_t>& blocks) {
    for (; !blocks.empty(); blocks.pop_back())
      if (blocks.back() != kAbsent) script_.Free(blocks.back());
  }

  void Temporary(int operation, std::uint64_t size_bytes) { script_.Free(Request(operation, size_bytes)); }

  void MaybePrefetch() {
    if (!options_.prefetch || step_ == 0 || prefetched_in_ == step_ || random_() % 97 != 0) return;
    prefetched_in_ = step_;
    for (std::uint64_t block : prefetched_) script_.Free(block);
    prefetched_ = {Plain(900, 1u << 20, 1), Plain(901, 1u << 12, 1)};
  }

  std::uint64_t ActivationBytes(int operation) const {
    return scale_ * (2048u + 1024u * static_cast<unsigned>(operation));
  }

  void LayerForward(std::vector<std::uint64_t>& kept) {
    for (int operation = 0; operation < kOperations; ++operation) {
      if (operation % 3 == 1) Temporary(100 + operation, ActivationBytes(operation) / 2);
      kept.push_back(Request(operation, ActivationBytes(operation)));
    }
    for (int expert = 0; expert < options_.experts; ++expert) {
      const std::uint64_t tokens = random_() % 100 < 1 ? 0 : 16 + random_() % 500;
      if (tokens == 0) {
        names_ += 3;
        kept.insert(kept.end(), 2, kAbsent);
        continue;
      }
      Temporary(200, 8 * tokens);
      kept.push_back(Request(201, 512 * tokens));
      kept.push_back(Request(202, 2048 * tokens));
    }
  }

  void LayerBackward(std::vector<std::uint64_t>& kept, std::vector<std::uint64_t>& gradients, bool first) {
    for (; !kept.empty(); kept.pop_back()) {
      const int operation = static_cast<int>(kept.size()) % kOperations;
      if (kept.back() == kAbsent) {
        ++names_;
        continue;
      }
      Temporary(300 + operation, script_.sizes_bytes[kept.back()]);
      script_.Free(kept.back());
    }
    for (int parameter = 0; parameter < 6; ++parameter) {
      const std::uint64_t gradient = Request(400 + parameter, 65536u << parameter);
      if (first)
        gradients.push_back(gradient);
      else
        script_.Free(gradient);  // added to the first one
    }
  }

  void MicroBatch(bool first) {
    const std::uint64_t input = Request(500, 4096 * scale_);
    std::vector<std::vector<std::uint64_t>> kept(static_cast<std::size_t>(options_.layers));
    std::vector<std::uint64_t> inputs;
    for (auto& layer : kept) {
      if (options_.recomputation) inputs.push_back(Request(501, 8192 * scale_));
      LayerForward(layer);
      if (options_.recomputation) FreeAll(layer);
    }
    if (options_.hold_output) {
      const std::uint64_t output = Request(503, kOutputBytes);
      FreeAll(held_);
      held_.push_back(output);
    }
    const std::uint64_t loss = Request(502, 4);
    for (std::size_t i = kept.size(); i-- > 0;) {
      if (options_.recomputation) LayerForward(kept[i]);
      LayerBackward(kept[i], gradients_, first && gradients_.size() < kept.size() * 6);
      if (options_.recomputation) script_.Free(inputs[i]);
    }
    script_.Free(input);
    if (!options_.keep_losses || !first) script_.Free(loss);
  }

  void Evaluate() {
    scale_ = 3;
    for (int batch = 0; batch < options_.evaluation_batches; ++batch) {
      const std::uint64_t input = Request(500, 4096 * scale_);
      std::uint64_t hidden = Request(501, 8192 * scale_);
      for (int layer = 0; layer < options_.layers; ++layer) {
        std::vector<std::uint64_t> kept;
        LayerForward(kept);
        FreeAll(kept);
        const std::uint64_t next = Request(501, 8192 * scale_);
        script_.Free(hidden);
        hidden = next;
      }
      script_.Free(hidden);
      script_.Free(input);
    }
  }

  void Step() {
    names_ = 0;
    scale_ = options_.varying_length ? 8 + random_() % 57 : 16;
    for (int i = 0; i < options_.accumulation; ++i) MicroBatch(i == 0);
    const int parameters = options_.layers * 6;
    if (step_ == 1) {
      const std::uint64_t names = names_;
      for (int i = 0; i < 2 * parameters; ++i) Request(600, 65536u << (i / 2 % 6));
      names_ = names;
    }
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<std::uint64_t> list;
      for (int i = 0; i < parameters; ++i) list.push_back(Request(700 + pass, 65536u << (i % 6)));
      for (std::uint64_t block : list) script_.Free(block);
    }
    if (options_.log_every != 0 && step_ % options_.log_every == 0) Temporary(800, 4);
    if (!options_.keep_gradients) {
      for (std::uint64_t block : gradients_) script_.Free(block);
      gradients_.clear();
    }
    if (options_.evaluation_every != 0 && step_ % options_.evaluation_every == 0) Evaluate();
  }

  TrainingOptions options_;
  std::mt19937 random_;
  Script script_;
  int step_ = 0;
  std::uint64_t names_ = 0, loader_names_ = 0, scale_ = 16;
  std::vector<std::uint64_t> gradients_, prefetched_, held_;
  int prefetched_in_ = 0;
};

}  // namespace stalloc::runtime
