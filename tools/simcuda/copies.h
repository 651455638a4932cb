// What the entry points of copies and fills are made of. Called under the machine's lock.
#pragma once

#include "call.h"
#include "work.h"

namespace stalloc::simcuda {

inline CopyEnd DeviceEnd(CUdeviceptr address) { return {address, true}; }
inline CopyEnd HostEnd(const void* address) { return {reinterpret_cast<std::uint64_t>(address), false}; }

// Which of the two an address of the unified address space is: what lies in no reservation is host memory.
inline CopyEnd UnifiedEnd(const Machine& machine, std::uint64_t address) {
  return {address, machine.space.IsReserved(address)};
}

// Pageable host memory is read when the copy is queued and written before the call returns; pinned memory and managed
// memory are touched when the copy executes.
CUresult QueueCopy(Call& call, Stream& stream, CopyEnd destination, CopyEnd source, std::size_t size_bytes, bool wait);

// `pattern` is repeated every four bytes, and `address` is a multiple of `unit_bytes`.
CUresult QueueFill(Call& call, Stream& stream, CUdeviceptr address, std::size_t size_bytes, std::uint32_t pattern,
                   std::size_t unit_bytes);

}  // namespace stalloc::simcuda
