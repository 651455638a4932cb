// MemoryBlocks: what programs got from cuMemAlloc and from pools, by address.
//
// A block of 2 MiB or more has pages of its own; smaller ones share 2 MiB chunks of their context's heap in units of
// 512 bytes, so that blocks of 1000 bytes lie 1024 apart. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "cuda_driver.h"
#include "free_ranges.h"

namespace stalloc::simcuda {

struct Context;
struct Machine;
class Pool;

inline constexpr std::uint64_t kBlockUnitBytes = 512;

struct Block {
  enum class Kind : std::uint8_t { kMalloc, kPool, kGraph, kOpened };  // kOpened: another process's

  std::uint64_t size_bytes = 0;  // as asked for
  Kind kind = Kind::kMalloc;
  int device = 0;
  std::uint64_t id = 0;        // CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice
  Context* context = nullptr;  // kMalloc: the owner
  std::shared_ptr<Pool> pool;  // kPool
  bool freed = false;          // a stream-ordered free is queued: a second free is an error
};

class MemoryBlocks {
 public:
  explicit MemoryBlocks(Machine* machine) : machine_(machine) {}

  // cuMemAlloc in `context`. CUDA_ERROR_OUT_OF_MEMORY when the device has no more.
  CUresult Allocate(Context& context, std::uint64_t size_bytes, CUdeviceptr* address);
  // Gives back the memory of a kMalloc block.
  void Release(CUdeviceptr address);
  // Gives back every kMalloc block of the context.
  void ReleaseAll(Context& context);

  void Clear() { blocks_.clear(); }

  void Add(CUdeviceptr address, Block block);
  void Remove(CUdeviceptr address) { blocks_.erase(address); }

  // The block that begins at the address and is not freed; null if there is none.
  Block* FindLive(CUdeviceptr address);
  // The live block that contains the address.
  Block* FindContaining(CUdeviceptr address, CUdeviceptr* begin);

 private:
  bool MapMalloc(Context& context, CUdeviceptr* address, std::uint64_t size_bytes);

  Machine* machine_;
  std::map<CUdeviceptr, Block> blocks_;
};

}  // namespace stalloc::simcuda
