// Models of other allocators, for `stalloc replay`: each answers how much memory that allocator would hold over the
// same requests. Written from public documentation and from what the allocators are seen to do; what a model leaves out
// is said in its file. How to add one: a file here that implements AllocatorModel, a line in MakeAllocatorModel.
//
// One thread; nothing here touches a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stalloc::tools {

class AllocatorModel {
 public:
  virtual ~AllocatorModel() = default;

  // A block is named by the caller and freed at most once. `stream` is any number that names the stream.
  virtual void Allocate(std::uint64_t block, std::uint64_t size_bytes, std::uint64_t stream) = 0;
  virtual void Free(std::uint64_t block) = 0;

  virtual std::uint64_t reserved_bytes() const = 0;  // physical memory held now
  virtual std::uint64_t map_calls() const = 0;       // calls to the driver for memory, so far
};

// The names that MakeAllocatorModel knows, in the order in which they are listed for people.
std::vector<std::string> AllocatorModelNames();

// Returns nullptr for an unknown name.
std::unique_ptr<AllocatorModel> MakeAllocatorModel(const std::string& name);

std::unique_ptr<AllocatorModel> MakeBestFitArena();
std::unique_ptr<AllocatorModel> MakeTorchCaching();
std::unique_ptr<AllocatorModel> MakeTorchExpandable();
std::unique_ptr<AllocatorModel> MakeCudaAsyncPool();

}  // namespace stalloc::tools
