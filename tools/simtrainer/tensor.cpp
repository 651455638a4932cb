#include "tensor.h"

#include <cstdio>
#include <cstdlib>

namespace stalloc::simtrainer {

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "simtrainer: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

Tensor::Tensor(std::size_t size_bytes, cudaStream_t stream) : size_bytes_(size_bytes), stream_(stream) {
  Check(cudaMallocAsync(&data_, size_bytes_, stream_), "cudaMallocAsync");
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  stream_ = other.stream_;
  return *this;
}

void Tensor::Reset() {
  if (data_ != nullptr) Check(cudaFreeAsync(std::exchange(data_, nullptr), stream_), "cudaFreeAsync");
}

void Tensor::Write(std::uint8_t value) {
  Check(cudaMemsetAsync(data_, value, size_bytes_, stream_), "cudaMemsetAsync");
}

void Tensor::Read(Checksum* checksum) const {
  const std::size_t positions[] = {0, size_bytes_ / 2, size_bytes_ - 1};
  std::uint8_t bytes[3] = {};
  for (int i = 0; i < 3; ++i) {
    const auto* source = static_cast<const std::uint8_t*>(data_) + positions[i];
    Check(cudaMemcpyAsync(&bytes[i], source, 1, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  }
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  for (const std::uint8_t byte : bytes) checksum->Add(byte);
}

}  // namespace stalloc::simtrainer
