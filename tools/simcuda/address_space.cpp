#include "address_space.h"

namespace stalloc::simcuda {
namespace {

constexpr CUdeviceptr kFirstAddress = 0x3000'0000'0000;
constexpr CUdeviceptr kEndAddress = 0x5000'0000'0000;

}  // namespace

void Mapping::SetAccess(int device, CUmemAccess_flags flags) {
  const std::uint32_t bit = 1u << device;
  readable = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? readable & ~bit : readable | bit;
  writable = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? writable | bit : writable & ~bit;
}

CUmemAccess_flags Mapping::GetAccess(int device) const {
  const std::uint32_t bit = 1u << device;
  if (writable & bit) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

AddressSpace::AddressSpace() { unreserved_.Return(kFirstAddress, kEndAddress - kFirstAddress); }

CUdeviceptr AddressSpace::Reserve(std::uint64_t size_bytes, std::uint64_t alignment, CUdeviceptr wanted) {
  CUdeviceptr address = 0;
  if (wanted != 0 && wanted % kPageBytes == 0 && unreserved_.TakeAt(wanted, size_bytes)) {
    address = wanted;
  } else if (const auto taken = unreserved_.Take(size_bytes, std::max(alignment, kPageBytes))) {
    address = *taken;
  } else {
    return 0;
  }
  reservations_.emplace(address, size_bytes);
  return address;
}

bool AddressSpace::Free(CUdeviceptr address, std::uint64_t size_bytes) {
  const auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second != size_bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + size_bytes) return false;
  reservations_.erase(it);
  unreserved_.Return(address, size_bytes);
  return true;
}

bool AddressSpace::Map(CUdeviceptr address, Mapping mapping) {
  const CUdeviceptr end = address + mapping.size_bytes;
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin() || end < address) return false;
  --reservation;
  if (end > reservation->first + reservation->second) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < end) return false;
  if (next != mappings_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.size_bytes > address) return false;
  }
  mappings_.emplace_hint(next, address, std::move(mapping));
  return true;
}

std::vector<Mapping*> AddressSpace::WholeMappings(CUdeviceptr address, std::uint64_t size_bytes) {
  const CUdeviceptr end = address + size_bytes;
  std::vector<Mapping*> whole;
  for (auto it = mappings_.find(address); address < end; ++it) {
    if (it == mappings_.end() || it->first != address || address + it->second.size_bytes > end) return {};
    whole.push_back(&it->second);
    address += it->second.size_bytes;
  }
  return whole;
}

bool AddressSpace::Unmap(CUdeviceptr address, std::uint64_t size_bytes, Mapping::Kind kind) {
  const std::vector<Mapping*> whole = WholeMappings(address, size_bytes);
  if (whole.empty()) return false;
  for (const Mapping* mapping : whole) {
    if (mapping->kind != kind) return false;
  }
  mappings_.erase(mappings_.find(address), mappings_.lower_bound(address + size_bytes));
  return true;
}

const Mapping* AddressSpace::Find(CUdeviceptr address, CUdeviceptr* begin) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.size_bytes) return nullptr;
  if (begin != nullptr) *begin = it->first;
  return &it->second;
}

Mapping* AddressSpace::Find(CUdeviceptr address, CUdeviceptr* begin) {
  return const_cast<Mapping*>(static_cast<const AddressSpace*>(this)->Find(address, begin));
}

bool AddressSpace::IsReserved(CUdeviceptr address) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return false;
  --it;
  return address - it->first < it->second;
}

}  // namespace stalloc::simcuda
