// The memory behaviour of one training run of a decoder-only transformer, with activation recomputation and AdamW: the
// requests that a framework makes for it, in their order and sizes, without the arithmetic.
//
// Forward keeps only each layer's input; backward recomputes a layer's activations, keeps them all, and frees them as
// it works back through them. Weight gradients live until the next step begins, the optimizer's state from the first
// step to the end, and every batch is there before the step that uses it. A step thus repeats, with lifetimes that
// nest, lifetimes that do not, and some that cross its boundary.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor.h"

namespace stalloc::simtrainer {

struct Shape {
  std::uint64_t layers = 16;
  std::uint64_t hidden = 2048;
  std::uint64_t feed_forward = 5632;
  std::uint64_t heads = 16;
  std::uint64_t vocabulary = 32000;
  std::uint64_t batch = 4;
  std::uint64_t sequence = 2048;
};

class Model {
 public:
  Model(const Shape& shape, cudaStream_t stream);

  // One forward, backward and optimizer step. Returns the sum over everything that was read back.
  std::uint64_t Step();

 private:
  Tensor Make(std::uint64_t size_bytes);  // allocates and fills with the next value
  Tensor Activation(std::uint64_t width, std::uint64_t element_bytes = 2);
  std::vector<Tensor> LayerActivations(const Tensor& input);  // everything that a layer's backward needs
  Tensor Forward(const Tensor& input);                        // keeps the layer's output only
  Tensor Backward(std::uint64_t layer, const Tensor& input, Tensor output_gradient);
  Tensor LossGradient(const Tensor& hidden);
  void Optimize();

  Shape shape_;
  cudaStream_t stream_;
  std::uint8_t next_value_ = 1;
  std::uint64_t steps_ = 0;
  Checksum checksum_;
  std::vector<std::uint64_t> parameter_bytes_;  // of one layer; then embedding and head
  std::vector<Tensor> parameters_, gradients_, moments_;
  Tensor next_batch_;
};

}  // namespace stalloc::simtrainer
