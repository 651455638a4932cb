// Entry points that share memory and events with other processes on the same devices: legacy handles of cuMemAlloc
// blocks, and handles of events. File descriptors of created memory are in api_virtual_memory.cpp.
#include <unistd.h>

#include <cstring>

#include "call.h"

namespace stalloc::simcuda {
namespace {

// What a handle holds: the process, its descriptor of the contents' file, and where in it the block begins.
struct MemoryHandle {
  char magic[8];
  std::int32_t process;
  std::int32_t descriptor;
  std::uint64_t file_id;
  std::uint64_t offset_bytes;
  std::uint64_t block_id;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

struct EventHandle {
  char magic[8];
  std::int32_t process;
  std::uint64_t event;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

constexpr char kMemoryMagic[8] = {'s', 'i', 'm', 'm', 'e', 'm', '1', 0};
constexpr char kEventMagic[8] = {'s', 'i', 'm', 'e', 'v', 't', '1', 0};

}  // namespace

CUresult ShareContents(PhysicalAllocation& physical) {
  if (physical.contents.shared() != nullptr) return CUDA_SUCCESS;
  return physical.contents.Share(SharedContents::Create(physical.size_bytes, physical.device->index()), false)
             ? CUDA_SUCCESS
             : CUDA_ERROR_OPERATING_SYSTEM;
}

// The handle is of the block, wherever in it the address lies.
SIMCUDA_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuIpcGetMemHandle), [&](Call& call) {
    CUdeviceptr begin = 0, mapped_at = 0;
    const Block* block = call.machine.blocks.FindContaining(address, &begin);
    if (handle == nullptr || block == nullptr || block->kind != Block::Kind::kMalloc) return CUDA_ERROR_INVALID_VALUE;
    const Mapping* mapping = std::as_const(call.machine.space).Find(begin, &mapped_at);
    if (const CUresult error = ShareContents(*mapping->physical)) return error;
    const SharedContents& shared = *mapping->physical->contents.shared();
    MemoryHandle made{};
    std::memcpy(made.magic, kMemoryMagic, sizeof(made.magic));
    made.process = getpid();
    made.descriptor = shared.descriptor();
    made.file_id = shared.id();
    made.offset_bytes = begin - mapped_at;
    made.block_id = block->id;
    std::memset(handle, 0, sizeof(*handle));
    std::memcpy(handle->reserved, &made, sizeof(made));
    return CUDA_SUCCESS;
  });
}

// A process cannot open what it has exported itself.
SIMCUDA_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuIpcOpenMemHandle), [&](Call& call) {
    MemoryHandle wanted;
    std::memcpy(&wanted, handle.reserved, sizeof(wanted));
    if (address == nullptr || (flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != 0 ||
        std::memcmp(wanted.magic, kMemoryMagic, sizeof(wanted.magic)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (wanted.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    std::shared_ptr<SharedContents> contents =
        SharedContents::OpenOf(wanted.process, wanted.descriptor, wanted.file_id);
    const Device* device = contents == nullptr ? nullptr : call.machine.FindDevice(contents->device());
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto physical = std::make_shared<PhysicalAllocation>(device->memory, contents->size_bytes(), false);
    const std::uint64_t size_bytes = physical->size_bytes;
    if (!physical->contents.Share(std::move(contents), true)) return CUDA_ERROR_OPERATING_SYSTEM;
    const CUdeviceptr begin = call.machine.space.Reserve(size_bytes, kPageBytes, 0);
    if (begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    Mapping mapping{size_bytes, std::move(physical), Mapping::Kind::kMalloc};
    mapping.SetAccess(device->index, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    mapping.SetAccess(call.context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    call.machine.space.Map(begin, std::move(mapping));
    Block block;
    block.kind = Block::Kind::kOpened;
    block.size_bytes = size_bytes;
    block.device = device->index;
    block.context = call.context;
    call.machine.blocks.Add(begin, std::move(block));
    *address = begin + wanted.offset_bytes;
    call.machine.opened_ipc[*address] = begin;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return Enter(SIMCUDA_ENTRY(cuIpcCloseMemHandle), [&](Call& call) {
    Machine& machine = call.machine;
    const auto opened = machine.opened_ipc.find(address);
    if (opened == machine.opened_ipc.end()) return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr begin = opened->second;
    machine.opened_ipc.erase(opened);
    machine.scheduler.WaitForContext(*call.context);
    const std::uint64_t size_bytes = std::as_const(machine.space).Find(begin)->size_bytes;
    machine.blocks.Remove(begin);
    machine.space.Unmap(begin, size_bytes, Mapping::Kind::kMalloc);
    machine.space.Free(begin, size_bytes);
    return CUDA_SUCCESS;
  });
}

// No other process can make this one's devices go on. So what such an event stands for has executed when the event is
// recorded (api_stream_order.cpp), and elsewhere it never has to be waited for.
SIMCUDA_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event_handle) {
  return Enter(SIMCUDA_ENTRY(cuIpcGetEventHandle), [&](Call& call) {
    const std::shared_ptr<Event> event = call.machine.events.Find(event_handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (handle == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0) return CUDA_ERROR_INVALID_VALUE;
    EventHandle made{};
    std::memcpy(made.magic, kEventMagic, sizeof(made.magic));
    made.process = getpid();
    made.event = reinterpret_cast<std::uint64_t>(event_handle);
    std::memset(handle, 0, sizeof(*handle));
    std::memcpy(handle->reserved, &made, sizeof(made));
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuIpcOpenEventHandle(CUevent* handle, CUipcEventHandle shared) {
  return Enter(SIMCUDA_ENTRY(cuIpcOpenEventHandle), [&](Call& call) {
    EventHandle wanted;
    std::memcpy(&wanted, shared.reserved, sizeof(wanted));
    if (handle == nullptr || std::memcmp(wanted.magic, kEventMagic, sizeof(wanted.magic)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (wanted.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    auto event = std::make_shared<Event>();
    event->context = call.context;
    event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    *handle = call.machine.events.Add(std::move(event));
    call.context->event_handles.insert(*handle);
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
