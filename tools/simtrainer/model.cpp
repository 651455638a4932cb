#include "model.h"

namespace stalloc::simtrainer {

Model::Model(const Shape& shape, cudaStream_t stream) : shape_(shape), stream_(stream) {
  constexpr std::uint64_t kFloat = sizeof(float);
  const std::uint64_t norm = kFloat * shape.hidden;
  const std::uint64_t square = norm * shape.hidden;
  const std::uint64_t wide = norm * shape.feed_forward;
  const std::uint64_t tokens = norm * shape.vocabulary;
  // In the order in which a layer uses them: norm, query-key-value, output, norm, gate and up, down.
  const std::vector<std::uint64_t> layer = {norm, 3 * square, square, norm, 2 * wide, wide};
  for (std::uint64_t i = 0; i < shape.layers; ++i)
    parameter_bytes_.insert(parameter_bytes_.end(), layer.begin(), layer.end());
  parameter_bytes_.push_back(tokens);  // embedding
  parameter_bytes_.push_back(tokens);  // head
  for (const std::uint64_t bytes : parameter_bytes_) parameters_.push_back(Make(bytes));
  gradients_.resize(parameters_.size());
  next_batch_ = Make(8 * shape.batch * shape.sequence);
}

Tensor Model::Make(std::uint64_t size_bytes) {
  Tensor tensor(size_bytes, stream_);
  tensor.Write(next_value_++);
  return tensor;
}

Tensor Model::Activation(std::uint64_t width, std::uint64_t element_bytes) {
  return Make(shape_.batch * shape_.sequence * width * element_bytes);
}

std::vector<Tensor> Model::LayerActivations(const Tensor& input) {
  input.Read(&checksum_);
  std::vector<Tensor> kept;
  kept.push_back(Activation(1, 4));              // reciprocal of the norm
  kept.push_back(Activation(shape_.hidden));     // normalised input
  Tensor fused = Activation(3 * shape_.hidden);  // query, key and value in one product, then apart
  for (int part = 0; part < 3; ++part) kept.push_back(Activation(shape_.hidden));
  fused.Reset();
  kept.push_back(Activation(shape_.hidden));    // attention's output
  kept.push_back(Activation(shape_.heads, 4));  // its log-sum-exp
  Tensor projected = Activation(shape_.hidden);
  kept.push_back(Activation(shape_.hidden));  // residual
  projected.Reset();
  kept.push_back(Activation(1, 4));
  kept.push_back(Activation(shape_.hidden));           // normalised again
  kept.push_back(Activation(shape_.feed_forward));     // gate
  kept.push_back(Activation(shape_.feed_forward));     // up
  Tensor activated = Activation(shape_.feed_forward);  // silu(gate)
  kept.push_back(Activation(shape_.feed_forward));     // their product
  return kept;
}

Tensor Model::Forward(const Tensor& input) {
  const std::vector<Tensor> dropped = LayerActivations(input);
  Tensor down = Activation(shape_.hidden);
  Tensor output = Activation(shape_.hidden);
  return output;
}

Tensor Model::Backward(std::uint64_t layer, const Tensor& input, Tensor output_gradient) {
  constexpr std::uint64_t kParametersPerLayer = 6;
  std::vector<Tensor> activations = LayerActivations(input);
  Tensor gradient = std::move(output_gradient);
  std::uint64_t parameter = kParametersPerLayer;
  while (!activations.empty()) {
    const Tensor activation = std::move(activations.back());
    activations.pop_back();
    activation.Read(&checksum_);
    Tensor next = Make(activation.size_bytes());
    const bool has_parameter = activations.size() % 2 == 1 && parameter > 0;
    if (has_parameter) {
      const std::uint64_t index = layer * kParametersPerLayer + --parameter;
      const Tensor half = Make(parameter_bytes_[index] / 2);  // the product is made in half precision
      gradients_[index] = Make(parameter_bytes_[index]);
    }
    gradient = std::move(next);
  }
  return Activation(shape_.hidden);
}

Tensor Model::LossGradient(const Tensor& hidden) {
  hidden.Read(&checksum_);
  Tensor logits = Activation(shape_.vocabulary);
  Tensor logits_float = Activation(shape_.vocabulary, 4);
  Tensor log_softmax = Activation(shape_.vocabulary, 4);
  logits_float.Reset();
  const Tensor loss = Make(4);
  loss.Read(&checksum_);
  const Tensor gradient_float = Activation(shape_.vocabulary, 4);
  log_softmax.Reset();
  logits.Reset();
  const Tensor gradient_half = Activation(shape_.vocabulary);
  gradients_.back() = Make(parameter_bytes_.back());
  return Activation(shape_.hidden);
}

void Model::Optimize() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (steps_ == 0) {
      moments_.push_back(Make(parameter_bytes_[i]));
      moments_.push_back(Make(parameter_bytes_[i]));
    }
    const Tensor root = Make(parameter_bytes_[i]);
    gradients_[i].Read(&checksum_);
    parameters_[i].Write(next_value_++);
  }
}

std::uint64_t Model::Step() {
  checksum_ = Checksum();
  for (Tensor& gradient : gradients_) gradient.Reset();
  const Tensor batch = std::move(next_batch_);
  batch.Read(&checksum_);

  std::vector<Tensor> layer_inputs;
  layer_inputs.push_back(Activation(shape_.hidden));
  for (std::uint64_t layer = 0; layer < shape_.layers; ++layer) layer_inputs.push_back(Forward(layer_inputs.back()));
  Tensor gradient = LossGradient(layer_inputs.back());
  layer_inputs.pop_back();
  next_batch_ = Make(batch.size_bytes());
  for (std::uint64_t layer = shape_.layers; layer-- > 0;) {
    gradient = Backward(layer, layer_inputs.back(), std::move(gradient));
    layer_inputs.pop_back();
  }
  gradients_[gradients_.size() - 2] = Make(parameter_bytes_.back());
  gradient.Reset();
  Optimize();
  ++steps_;
  return checksum_.value();
}

}  // namespace stalloc::simtrainer
