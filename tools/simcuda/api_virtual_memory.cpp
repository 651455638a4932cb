// Entry points of virtual memory: reserve, create, map, access.
#include <fcntl.h>

#include <cstring>

#include "call.h"

namespace stalloc::simcuda {
namespace {

// Host time per handle, measured on an H200 (FACTS of the project): access 24 us, unmap 20 us, create 15 ns per MiB.
constexpr std::uint64_t kSetAccessNs = 24'000;
constexpr std::uint64_t kUnmapNs = 20'000;
constexpr std::uint64_t kCreateNsPerMiB = 15;

bool IsPinnedOnDevice(Machine& machine, const CUmemAllocationProp* properties) {
  return properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         machine.FindDevice(properties->location.id) != nullptr;
}

CUmemGenericAllocationHandle AddHandle(Machine& machine, PhysicalPtr physical, const CUmemAllocationProp& properties) {
  const CUmemGenericAllocationHandle handle = 0x16'0000'0000 + machine.NextId() * 16;
  machine.handle_of[physical.get()] = handle;
  machine.virtual_handles[handle] = {std::move(physical), properties, 1};
  return handle;
}

CUmemAllocationProp DevicePropertiesOf(const PhysicalAllocation& physical) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = physical.device->index();
  return properties;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                                                      CUmemAllocationGranularity_flags) {
  return Enter(SIMCUDA_ENTRY(cuMemGetAllocationGranularity), [&](Call& call) {
    if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!IsPinnedOnDevice(call.machine, properties)) return CUDA_ERROR_INVALID_DEVICE;
    *granularity = kPageBytes;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment,
                                            CUdeviceptr wanted, unsigned long long flags) {
  return Enter(SIMCUDA_ENTRY(cuMemAddressReserve), [&](Call& call) {
    if (address == nullptr || size == 0 || size % kPageBytes != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr reserved = call.machine.space.Reserve(size, alignment, wanted);
    if (reserved == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reserved;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  return Enter(SIMCUDA_ENTRY(cuMemAddressFree), [&](Call& call) {
    return call.machine.space.Free(address, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMCUDA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                    const CUmemAllocationProp* properties, unsigned long long flags) {
  return Enter(SIMCUDA_ENTRY(cuMemCreate), [&](Call& call) {
    if (handle == nullptr || properties == nullptr || size == 0 || size % kPageBytes != 0 || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!IsPinnedOnDevice(call.machine, properties)) return CUDA_ERROR_INVALID_DEVICE;
    if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
      return CUDA_ERROR_NOT_SUPPORTED;  // no fabric
    PhysicalPtr physical = call.machine.FindDevice(properties->location.id)->memory->Allocate(size);
    if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    call.AddCost(kCreateNsPerMiB * (size >> 20));
    *handle = AddHandle(call.machine, std::move(physical), *properties);
    return CUDA_SUCCESS;
  });
}

// The memory itself lives on while it is mapped.
SIMCUDA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Enter(SIMCUDA_ENTRY(cuMemRelease), [&](Call& call) {
    const auto it = call.machine.virtual_handles.find(handle);
    if (it == call.machine.virtual_handles.end()) return CUDA_ERROR_INVALID_VALUE;
    if (--it->second.references > 0) return CUDA_SUCCESS;
    call.machine.handle_of.erase(it->second.physical.get());
    call.machine.virtual_handles.erase(it);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return Enter(SIMCUDA_ENTRY(cuMemMap), [&](Call& call) {
    const auto it = call.machine.virtual_handles.find(handle);
    if (it == call.machine.virtual_handles.end() || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (size == 0 || size % kPageBytes != 0 || address % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
    if (size > it->second.physical->size_bytes) return CUDA_ERROR_INVALID_VALUE;
    Mapping mapping{size, it->second.physical, Mapping::Kind::kVirtualMemory};
    return call.machine.space.Map(address, std::move(mapping)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Waits for nothing: work that still uses the range will fault.
SIMCUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  return Enter(SIMCUDA_ENTRY(cuMemUnmap), [&](Call& call) {
    const std::size_t mappings = call.machine.space.WholeMappings(address, size).size();
    call.AddCost(kUnmapNs * mappings);
    return call.machine.space.Unmap(address, size, Mapping::Kind::kVirtualMemory) ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMCUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* descriptions,
                                       std::size_t count) {
  return Enter(SIMCUDA_ENTRY(cuMemSetAccess), [&](Call& call) {
    if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      if (call.machine.FindDevice(descriptions[i].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    }
    const std::vector<Mapping*> mappings = call.machine.space.WholeMappings(address, size);
    if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (const Mapping* mapping : mappings) {
      if (mapping->kind != Mapping::Kind::kVirtualMemory) return CUDA_ERROR_INVALID_VALUE;
      for (std::size_t i = 0; i < count; ++i) {
        if (!call.machine.Connected(descriptions[i].location.id, mapping->physical->device->index()))
          return CUDA_ERROR_INVALID_DEVICE;
      }
    }
    for (Mapping* mapping : mappings) {
      for (std::size_t i = 0; i < count; ++i) mapping->SetAccess(descriptions[i].location.id, descriptions[i].flags);
    }
    call.AddCost(kSetAccessNs * mappings.size());
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuMemGetAccess), [&](Call& call) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.FindDevice(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const Mapping* mapping = call.machine.space.Find(address);
    if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = mapping->GetAccess(location->id);
    return CUDA_SUCCESS;
  });
}

// Works on interior addresses. The handle is the one that made the memory, or a new one if that was released.
SIMCUDA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return Enter(SIMCUDA_ENTRY(cuMemRetainAllocationHandle), [&](Call& call) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Mapping* mapping = call.machine.space.Find(reinterpret_cast<CUdeviceptr>(address));
    if (mapping == nullptr || mapping->kind != Mapping::Kind::kVirtualMemory) return CUDA_ERROR_INVALID_VALUE;
    const auto known = call.machine.handle_of.find(mapping->physical.get());
    if (known != call.machine.handle_of.end()) {
      *handle = known->second;
      ++call.machine.virtual_handles[known->second].references;
    } else {
      *handle = AddHandle(call.machine, mapping->physical, DevicePropertiesOf(*mapping->physical));
    }
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                               CUmemGenericAllocationHandle handle) {
  return Enter(SIMCUDA_ENTRY(cuMemGetAllocationPropertiesFromHandle), [&](Call& call) {
    const auto it = call.machine.virtual_handles.find(handle);
    if (properties == nullptr || it == call.machine.virtual_handles.end()) return CUDA_ERROR_INVALID_VALUE;
    *properties = it->second.properties;
    return CUDA_SUCCESS;
  });
}

// A file descriptor of its own each time, of the file that has the contents from then on.
SIMCUDA_EXPORT CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                                     CUmemAllocationHandleType type, unsigned long long flags) {
  return Enter(SIMCUDA_ENTRY(cuMemExportToShareableHandle), [&](Call& call) {
    const auto it = call.machine.virtual_handles.find(handle);
    if (shareable == nullptr || it == call.machine.virtual_handles.end() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    if ((it->second.properties.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = ShareContents(*it->second.physical)) return error;
    const int descriptor = fcntl(it->second.physical->contents.shared()->descriptor(), F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    std::memcpy(shareable, &descriptor, sizeof(descriptor));
    return CUDA_SUCCESS;
  });
}

// The descriptor stays the caller's.
SIMCUDA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                       CUmemAllocationHandleType type) {
  return Enter(SIMCUDA_ENTRY(cuMemImportFromShareableHandle), [&](Call& call) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    std::shared_ptr<SharedContents> contents = SharedContents::Open(descriptor);
    if (contents == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // This process's own memory is the same memory again.
    for (const auto& [known, owner] : call.machine.virtual_handles) {
      const auto& shared = owner.physical->contents.shared();
      if (shared == nullptr || shared->id() != contents->id()) continue;
      *handle = AddHandle(call.machine, owner.physical, owner.properties);
      return CUDA_SUCCESS;
    }
    const Device* device = call.machine.FindDevice(contents->device());
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    auto physical = std::make_shared<PhysicalAllocation>(device->memory, contents->size_bytes(), false);
    CUmemAllocationProp properties = DevicePropertiesOf(*physical);
    properties.requestedHandleTypes = type;
    if (!physical->contents.Share(std::move(contents), true)) return CUDA_ERROR_OPERATING_SYSTEM;
    *handle = AddHandle(call.machine, std::move(physical), properties);
    return CUDA_SUCCESS;
  });
}

// A file descriptor that stands for nothing.
SIMCUDA_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t size,
                                                      CUmemRangeHandleType type, unsigned long long flags) {
  return Enter(SIMCUDA_ENTRY(cuMemGetHandleForAddressRange), [&](Call& call) {
    constexpr std::size_t kHostPage = 4096;
    if (handle == nullptr || size == 0 || address % kHostPage != 0 || size % kHostPage != 0 || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) return CUDA_ERROR_NOT_SUPPORTED;
    CUdeviceptr fault = 0;
    const bool mapped = call.machine.space.Visit(address, size, &fault,
                                                 [](const Mapping&, std::uint64_t, std::uint64_t) { return true; });
    if (!mapped) return CUDA_ERROR_INVALID_VALUE;
    const int descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    std::memcpy(handle, &descriptor, sizeof(descriptor));
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
