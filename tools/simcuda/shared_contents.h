// SharedContents: the contents of physical memory that other processes may open, as real bytes in a file.
//
// Such memory is as large in the file as on the device, but the file is sparse: it costs the host what was written that
// is not zero. A tag is its eight bytes, repeated. Called under the machine's lock; other processes write when they do.
#pragma once

#include <cstdint>
#include <memory>

namespace stalloc::simcuda {

class SharedContents {
 public:
  // A file without a name. Null if the system refuses it.
  static std::shared_ptr<SharedContents> Create(std::uint64_t size_bytes, int device);
  // The same file by a descriptor, this process's or, by way of /proc, another's. Null if it is not one of simcuda's.
  static std::shared_ptr<SharedContents> Open(int descriptor);
  static std::shared_ptr<SharedContents> OpenOf(int process, int descriptor, std::uint64_t id);
  ~SharedContents();
  SharedContents(const SharedContents&) = delete;
  SharedContents& operator=(const SharedContents&) = delete;

  std::uint8_t* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  int device() const { return device_; }
  int descriptor() const { return descriptor_; }
  std::uint64_t id() const { return id_; }  // differs from file to file
  // [offset, offset + size) reads as zero and costs nothing.
  void Clear(std::uint64_t offset, std::uint64_t size_bytes);

 private:
  SharedContents() = default;
  static std::shared_ptr<SharedContents> Map(int descriptor);

  int descriptor_ = -1;
  std::uint8_t* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t id_ = 0;
  int device_ = 0;
};

}  // namespace stalloc::simcuda
