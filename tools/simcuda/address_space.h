// AddressSpace: the virtual addresses of all devices: what is reserved, what is mapped where, who may access it.
//
// Addresses are numbers only; no host memory lies behind them. They are lower than where Linux puts programs, their
// heaps and libraries, so that a host pointer is never taken for a device's. Addresses given back are handed out again
// soon, as the driver does. Called under the machine's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cuda_driver.h"
#include "free_ranges.h"
#include "physical_memory.h"

namespace stalloc::simcuda {

struct Mapping {
  enum class Kind : std::uint8_t { kVirtualMemory, kMalloc, kPool };

  std::uint64_t size_bytes = 0;
  PhysicalPtr physical;  // from its first byte
  Kind kind = Kind::kVirtualMemory;
  std::uint32_t readable = 0;  // bit k: from device k
  std::uint32_t writable = 0;

  void SetAccess(int device, CUmemAccess_flags flags);
  CUmemAccess_flags GetAccess(int device) const;
};

class AddressSpace {
 public:
  AddressSpace();

  // 0 when there is no room. `alignment` is a power of two; `wanted` (0: anywhere) is a wish.
  CUdeviceptr Reserve(std::uint64_t size_bytes, std::uint64_t alignment, CUdeviceptr wanted);
  // False unless [address, address + size) is a whole reservation in which nothing is mapped.
  bool Free(CUdeviceptr address, std::uint64_t size_bytes);

  // False unless the range lies in one reservation and nothing is mapped in it.
  bool Map(CUdeviceptr address, Mapping mapping);
  // False unless the range is covered by whole mappings of kind `kind`, without a hole.
  bool Unmap(CUdeviceptr address, std::uint64_t size_bytes, Mapping::Kind kind);

  // The mappings that make up the range; empty unless they cover it without a hole and none sticks out.
  std::vector<Mapping*> WholeMappings(CUdeviceptr address, std::uint64_t size_bytes);
  // The mapping that contains the address, and where it begins; null if there is none.
  const Mapping* Find(CUdeviceptr address, CUdeviceptr* begin = nullptr) const;
  Mapping* Find(CUdeviceptr address, CUdeviceptr* begin = nullptr);
  bool IsReserved(CUdeviceptr address) const;

  // Calls visit(mapping, offset in it, size) for each piece of the range in order. False, with the address of the
  // first byte that is not mapped in *fault, if the range has a hole; pieces before the hole have been visited.
  template <typename Visitor>
  bool Visit(CUdeviceptr address, std::uint64_t size_bytes, CUdeviceptr* fault, Visitor visit) const {
    const CUdeviceptr end = address + size_bytes;
    auto it = mappings_.upper_bound(address);
    if (it != mappings_.begin()) --it;
    for (; address < end; ++it) {
      if (it == mappings_.end() || it->first > address || it->first + it->second.size_bytes <= address) {
        *fault = address;
        return false;
      }
      const std::uint64_t offset = address - it->first;
      const std::uint64_t size = std::min<std::uint64_t>(it->second.size_bytes - offset, end - address);
      if (!visit(it->second, offset, size)) {
        *fault = address;
        return false;
      }
      address += size;
    }
    return true;
  }

 private:
  FreeRanges unreserved_;
  std::map<CUdeviceptr, std::uint64_t> reservations_;  // begin -> size
  std::map<CUdeviceptr, Mapping> mappings_;
};

}  // namespace stalloc::simcuda
