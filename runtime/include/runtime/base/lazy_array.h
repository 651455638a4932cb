// LazyArray: a zero-initialised array in address space that costs memory only where it is touched.
//
// The serving path may not allocate, yet its tables must be able to cover a whole device. An anonymous mapping without
// reserve gives both: its size is fixed when it is made, and the kernel supplies pages on first touch.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace stalloc::runtime {

template <typename T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  LazyArray() = default;

  // Throws std::bad_alloc if the address space is not to be had.
  explicit LazyArray(std::size_t count) : count_(count) {
    if (count == 0) return;
    void* memory =
        ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }

  LazyArray(LazyArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  LazyArray& operator=(LazyArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~LazyArray() {
    if (data_ != nullptr) ::munmap(data_, count_ * sizeof(T));
  }

  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  std::size_t size() const noexcept { return count_; }
  T* data() noexcept { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace stalloc::runtime
