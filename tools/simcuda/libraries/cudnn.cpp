// cuDNN's older interface: tensors, recurrent networks, normalisation, CTC loss, spatial transformers. Convolutions and
// attention come through the backend interface (cudnn_backend.cpp).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "cudnn_tensor.h"
#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

constexpr int kBadParameter = 2000;  // CUDNN_STATUS_BAD_PARAM

// A recurrent network, as cudnnSetRNNDescriptor_v8 describes it.
struct RecurrentNetwork : Object {
  std::int64_t gates = 1;  // matrices of each kind in a layer: 1, or 4 (LSTM), or 3 (GRU)
  bool biases = true;
  std::int64_t directions = 1;
  std::int64_t element_bytes = 4;
  std::int64_t input = 0, hidden = 0, projection = 0, layers = 0;

  std::int64_t output() const { return projection > 0 ? projection : hidden; }
  std::int64_t pseudo_layers() const { return layers * directions; }
  std::int64_t InputOf(std::int64_t pseudo_layer) const {
    return pseudo_layer < directions ? input : output() * directions;
  }
  // Elements of the matrix with that number: input matrices, recurrent matrices, the projection's.
  std::int64_t Columns(std::int64_t pseudo_layer, std::int64_t matrix) const {
    if (matrix < gates) return InputOf(pseudo_layer);
    return matrix < 2 * gates ? output() : hidden;
  }
  std::int64_t Rows(std::int64_t matrix) const { return matrix < 2 * gates ? hidden : projection; }
  std::int64_t matrices() const { return 2 * gates + (projection > 0 ? 1 : 0); }
  std::int64_t MatrixElements(std::int64_t until_layer, std::int64_t until_matrix) const {
    std::int64_t elements = 0;
    for (std::int64_t layer = 0; layer <= until_layer && layer < pseudo_layers(); ++layer) {
      const std::int64_t end = layer == until_layer ? until_matrix : matrices();
      for (std::int64_t matrix = 0; matrix < end; ++matrix) elements += Rows(matrix) * Columns(layer, matrix);
    }
    return elements;
  }
  std::int64_t weight_elements() const {
    return MatrixElements(pseudo_layers(), 0) + (biases ? pseudo_layers() * 2 * gates * hidden : 0);
  }
};

struct RecurrentData : Object {
  std::int64_t steps = 0, batch = 0, width = 0;
};

int CreateNetwork(Arguments arguments) {
  *Pointer<Object*>(arguments[0]) = new RecurrentNetwork();
  return 0;
}
int DestroyNetwork(Arguments arguments) {
  delete Pointer<RecurrentNetwork>(arguments[0]);
  return 0;
}
int CreateData(Arguments arguments) {
  *Pointer<Object*>(arguments[0]) = new RecurrentData();
  return 0;
}
int DestroyData(Arguments arguments) {
  delete Pointer<RecurrentData>(arguments[0]);
  return 0;
}

// (network, algorithm, cell, bias, direction, input mode, type, math type, math mode, input, hidden, projection,
// layers, dropout, flags)
int SetNetwork(Arguments arguments) {
  auto* network = Pointer<RecurrentNetwork>(arguments[0]);
  constexpr std::array<std::int64_t, 4> kGates = {1, 1, 4, 3};  // ReLU, tanh, LSTM, GRU
  network->gates = kGates[static_cast<std::size_t>(Int32(arguments[2])) % kGates.size()];
  network->biases = Int32(arguments[3]) != 0;
  network->directions = Int32(arguments[4]) == 1 ? 2 : 1;
  network->element_bytes = CudnnElementBytes(Int32(arguments[6]));
  network->input = Int32(arguments[9]);
  network->hidden = Int32(arguments[10]);
  network->projection = Int32(arguments[11]) == network->hidden ? 0 : Int32(arguments[11]);
  network->layers = Int32(arguments[12]);
  return 0;
}

// (data, type, layout, steps, batch, width, lengths, fill)
int SetData(Arguments arguments) {
  auto* data = Pointer<RecurrentData>(arguments[0]);
  data->steps = Int32(arguments[3]);
  data->batch = Int32(arguments[4]);
  data->width = Int32(arguments[5]);
  return 0;
}

int WeightSpace(Arguments arguments) {
  const auto* network = Pointer<const RecurrentNetwork>(arguments[1]);
  return SetHostSize(arguments, 2, static_cast<std::size_t>(network->weight_elements() * network->element_bytes));
}

// (handle, network, mode, data, *workspace, *reserve). Measured on an H200 with two layers of 512: in training every
// layer keeps, for each step and cell, 5 numbers (LSTM) or 6 (GRU), and its output for the next layer; at work are the
// gates of all layers, and some 16 MiB.
int TemporarySpace(Arguments arguments) {
  constexpr std::int64_t kWorkBytes = 16 << 20;
  const auto* network = Pointer<const RecurrentNetwork>(arguments[1]);
  const bool training = Int32(arguments[2]) == 1;
  const auto* data = Pointer<const RecurrentData>(arguments[3]);
  const std::int64_t cells = data->steps * data->batch * network->hidden * network->directions;
  const std::int64_t kept_of_layer = network->gates == 4 ? 5 : network->gates == 3 ? 6 : 1;
  const std::int64_t kept = kept_of_layer * network->layers + network->layers - 1;
  const std::int64_t work = cells * network->gates * network->layers * network->element_bytes + kWorkBytes;
  if (arguments[4] != 0) SetHostSize(arguments, 4, static_cast<std::size_t>(work));
  const std::int64_t reserve = training ? cells * kept * network->element_bytes : 0;
  if (arguments[5] != 0) SetHostSize(arguments, 5, static_cast<std::size_t>(reserve));
  return 0;
}

void Describe(Word descriptor, const RecurrentNetwork& network, std::int64_t rows, std::int64_t columns) {
  if (auto* tensor = Pointer<CudnnTensor>(descriptor); tensor != nullptr) {
    tensor->data_type = network.element_bytes == 4 ? 0 : network.element_bytes == 8 ? 1 : 2;
    tensor->sizes = {1, rows, columns};
    tensor->strides = {rows * columns, columns, 1};
  }
}

// (handle, network, pseudo layer, size, weights, matrix, matrix tensor, *matrix address, bias tensor, *bias address);
// the last four may be null.
int WeightParameters(Arguments arguments) {
  const auto* network = Pointer<const RecurrentNetwork>(arguments[1]);
  const std::int64_t layer = Int32(arguments[2]), matrix = Int32(arguments[5]);
  if (layer >= network->pseudo_layers() || matrix > 2 * network->gates) return kBadParameter;
  const bool exists = matrix < network->matrices();
  Describe(arguments[6], *network, exists ? network->Rows(matrix) : 0, exists ? network->Columns(layer, matrix) : 0);
  const std::int64_t offset = network->MatrixElements(layer, matrix) * network->element_bytes;
  if (arguments[7] != 0) *Pointer<Word>(arguments[7]) = exists ? arguments[4] + static_cast<Word>(offset) : 0;
  const bool has_bias = network->biases && matrix < 2 * network->gates;
  Describe(arguments[8], *network, has_bias ? network->hidden : 0, has_bias ? 1 : 0);
  const std::int64_t bias =
      network->MatrixElements(network->pseudo_layers(), 0) + (layer * 2 * network->gates + matrix) * network->hidden;
  if (arguments[9] != 0) {
    *Pointer<Word>(arguments[9]) = has_bias ? arguments[4] + static_cast<Word>(bias * network->element_bytes) : 0;
  }
  return 0;
}

int CreateTensor(Arguments arguments) {
  *Pointer<Object*>(arguments[0]) = new CudnnTensor();
  return 0;
}
int DestroyTensor(Arguments arguments) {
  delete Pointer<CudnnTensor>(arguments[0]);
  return 0;
}

// (tensor, type, dimensions, sizes, strides)
int SetTensor(Arguments arguments) {
  auto* tensor = Pointer<CudnnTensor>(arguments[0]);
  const auto* sizes = Pointer<const std::int32_t>(arguments[3]);
  const auto* strides = Pointer<const std::int32_t>(arguments[4]);
  tensor->data_type = Int32(arguments[1]);
  tensor->sizes.assign(sizes, sizes + Int32(arguments[2]));
  tensor->strides.assign(strides, strides + Int32(arguments[2]));
  return 0;
}

// (filter, type, format, dimensions, sizes)
int SetFilter(Arguments arguments) {
  auto* tensor = Pointer<CudnnTensor>(arguments[0]);
  const auto* sizes = Pointer<const std::int32_t>(arguments[4]);
  tensor->data_type = Int32(arguments[1]);
  tensor->sizes.assign(sizes, sizes + Int32(arguments[3]));
  return 0;
}

// (tensor, requested, *type, *dimensions, sizes, strides)
int GetTensor(Arguments arguments) {
  const auto* tensor = Pointer<const CudnnTensor>(arguments[0]);
  const auto wanted = std::min(static_cast<std::size_t>(Int32(arguments[1])), tensor->sizes.size());
  SetHostInt(arguments, 2, static_cast<int>(tensor->data_type));
  SetHostInt(arguments, 3, static_cast<int>(tensor->sizes.size()));
  for (std::size_t i = 0; i < wanted; ++i) {
    Pointer<std::int32_t>(arguments[4])[i] = static_cast<std::int32_t>(tensor->sizes[i]);
    if (i < tensor->strides.size()) {
      Pointer<std::int32_t>(arguments[5])[i] = static_cast<std::int32_t>(tensor->strides[i]);
    }
  }
  return 0;
}

// (filter, requested, *type, *format, *dimensions, sizes)
int GetFilter(Arguments arguments) {
  const auto* tensor = Pointer<const CudnnTensor>(arguments[0]);
  const auto wanted = std::min(static_cast<std::size_t>(Int32(arguments[1])), tensor->sizes.size());
  SetHostInt(arguments, 2, static_cast<int>(tensor->data_type));
  SetHostInt(arguments, 3, 0);
  SetHostInt(arguments, 4, static_cast<int>(tensor->sizes.size()));
  for (std::size_t i = 0; i < wanted; ++i) {
    Pointer<std::int32_t>(arguments[5])[i] = static_cast<std::int32_t>(tensor->sizes[i]);
  }
  return 0;
}

// Results of a choice of algorithm: one, all zero (48 bytes: algorithm, status, time, memory, determinism, math type).
int OneAlgorithm(Arguments arguments, int count_position, int results_position) {
  std::memset(Pointer<void>(arguments[results_position]), 0, 48);
  return SetHostInt(arguments, count_position, 1);
}

// The version that PyTorch was built with, so that it takes its usual ways; set by who loads this library.
std::size_t Version() {
  const char* text = std::getenv("SIMCUDA_CUDNN_VERSION");
  const unsigned long version = text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
  return version == 0 ? 91000 : version;
}

// (property, *value): major, minor or patch level.
int Property(Arguments arguments) {
  const std::size_t version = Version();
  const std::size_t parts[] = {version / 10000, version / 100 % 100, version % 100};
  return SetHostInt(arguments, 1, static_cast<int>(parts[static_cast<std::size_t>(Int32(arguments[0])) % 3]));
}

// States of the generators of a dropout descriptor: one for each thread that an H200's kernel has.
constexpr std::size_t kDropoutStateBytes = 132ull * 2048 * 24;

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
#include "cudnn.def"
ROW(cudnnCreateTensorDescriptor, CreateTensor)
ROW(cudnnCreateFilterDescriptor, CreateTensor)
ROW(cudnnDestroyTensorDescriptor, DestroyTensor)
ROW(cudnnDestroyFilterDescriptor, DestroyTensor)
ROW(cudnnSetTensorNdDescriptor, SetTensor)
ROW(cudnnSetFilterNdDescriptor, SetFilter)
ROW(cudnnGetTensorNdDescriptor, GetTensor)
ROW(cudnnGetFilterNdDescriptor, GetFilter)
ROW(cudnnCreateRNNDescriptor, CreateNetwork)
ROW(cudnnDestroyRNNDescriptor, DestroyNetwork)
ROW(cudnnCreateRNNDataDescriptor, CreateData)
ROW(cudnnDestroyRNNDataDescriptor, DestroyData)
ROW(cudnnSetRNNDescriptor_v8, SetNetwork)
ROW(cudnnSetRNNDataDescriptor, SetData)
ROW(cudnnGetRNNWeightSpaceSize, WeightSpace)
ROW(cudnnGetRNNTempSpaceSizes, TemporarySpace)
ROW(cudnnGetRNNWeightParams, WeightParameters)
ROW(cudnnDropoutGetStatesSize, SetHostSize, 1, kDropoutStateBytes)
ROW(cudnnGetProperty, Property)
#undef ROW

STAND_IN_EXPORT std::size_t cudnnGetVersion();
std::size_t cudnnGetVersion() { return Version(); }

STAND_IN_EXPORT std::size_t cudnnGetCudartVersion();
std::size_t cudnnGetCudartVersion() { return 13000; }

STAND_IN_EXPORT const char* cudnnGetErrorString(int);
const char* cudnnGetErrorString(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : "an error of the stand-in for cuDNN";
}

STAND_IN_EXPORT void cudnnGetLastErrorString(char*, std::size_t);
void cudnnGetLastErrorString(char* text, std::size_t capacity) {
  if (capacity > 0) *text = 0;
}

}  // namespace stalloc::simcuda::libraries
