// SharedDevices: what several processes that use the same simulated devices have in common: how much memory each holds.
//
// SIMCUDA_SHARED=NAME: processes with the same name share, by a file of that name in /dev/shm. A process takes a slot
// when it first allocates; the slot of one that has died is free. Counters are atomic; the rest is under the machine's
// lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stalloc::simcuda {

class SharedDevices {
 public:
  // Null, with a sentence in *error, if the file cannot be made.
  static std::unique_ptr<SharedDevices> Open(const std::string& name, std::string* error);
  ~SharedDevices();
  SharedDevices(const SharedDevices&) = delete;
  SharedDevices& operator=(const SharedDevices&) = delete;

  // Counts `size_bytes` as this process's, unless all processes would then hold more than `total_bytes`.
  bool Take(int device, std::uint64_t size_bytes, std::uint64_t total_bytes);
  void Return(int device, std::uint64_t size_bytes);
  std::uint64_t UsedBytes(int device) const;
  // Process ids and what they hold; none that holds nothing.
  std::vector<std::pair<int, std::uint64_t>> Processes(int device) const;

 private:
  struct File;
  struct Slot;

  explicit SharedDevices(File* file) : file_(file) {}
  Slot* Own();

  File* file_;
  Slot* own_ = nullptr;
};

}  // namespace stalloc::simcuda
