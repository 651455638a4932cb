// A block of device memory that knows what it should contain.
//
// Allocated and freed in stream order, as a framework's tensors are. Write fills the whole block; Read copies a few
// bytes of it back at the first, middle and last position. Were two live blocks ever to share memory, or memory be
// reused before the work that still reads it, the bytes that come back would be somebody else's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace stalloc::simtrainer {

// Ends the program with a message if `result` is an error.
void Check(cudaError_t result, const char* what);

// FNV-1a over everything that was read back, in order. Equal memory contents give equal sums.
class Checksum {
 public:
  void Add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) sum_ = (sum_ ^ ((value >> (8 * byte)) & 0xff)) * 0x100000001b3ull;
  }
  std::uint64_t value() const { return sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325ull;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::size_t size_bytes, cudaStream_t stream);
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { Reset(); }

  void Reset();  // frees it in the order of its stream
  void Write(std::uint8_t value);
  void Read(Checksum* checksum) const;  // waits for the stream

  std::size_t size_bytes() const { return size_bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace stalloc::simtrainer
