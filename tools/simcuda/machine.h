// Machine: the simulated devices of this process and everything that programs made on them, behind one lock.
//
// Entry points reach it through Call (call.h), which holds the lock while they run. The machine is never destroyed:
// programs call CUDA from late destructors.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "address_space.h"
#include "array.h"
#include "capture.h"
#include "cards.h"
#include "code.h"
#include "context.h"
#include "handle_table.h"
#include "host_thread.h"
#include "ledger.h"
#include "memory_blocks.h"
#include "pool.h"
#include "scheduler.h"
#include "simcuda/device.h"
#include "stream.h"

namespace stalloc::simcuda {

// What graphs of a device have mapped.
struct GraphMemoryUse {
  std::uint64_t bytes = 0, high_bytes = 0;
};

struct Device {
  int index = 0;
  std::shared_ptr<DeviceMemory> memory;
  std::shared_ptr<Context> primary;
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  std::shared_ptr<Pool> default_pool;
  std::shared_ptr<Pool> current_pool;
  GraphMemoryUse graph_memory;
};

// Host memory that the driver knows: pinned, registered or managed.
struct HostRange {
  std::uint64_t size_bytes = 0;
  bool managed = false;
  bool allocated = false;  // by the driver; otherwise registered
  Context* context = nullptr;
};

struct VirtualHandle {
  PhysicalPtr physical;
  CUmemAllocationProp properties{};
  unsigned references = 1;
};

struct Machine {
  static Machine& Get();

  // Fresh devices; everything of before is forgotten. Under the lock.
  void Restart(const Config& config);

  Device* FindDevice(int index) {
    return index >= 0 && index < static_cast<int>(devices.size()) ? devices[static_cast<std::size_t>(index)].get()
                                                                  : nullptr;
  }
  const Card& card() const { return *(config.card != nullptr ? config.card : FindCard("h200")); }
  // May `device` reach the memory of `owner`, as far as the machine is built?
  bool Connected(int device, int owner) const { return device == owner || config.peer_access; }
  HostRange* FindHostRange(std::uint64_t address, std::uint64_t* begin = nullptr);
  std::uint64_t NextId() { return ++last_id; }

  std::mutex mutex;
  std::condition_variable_any host_function_done;

  Ledger ledger;
  Config config;
  std::uint64_t epoch = 0;  // counts restarts: what threads remember of an earlier one is void
  bool usable = true;       // false: the environment names a card that there is not, and cuInit fails
  bool initialised = false;
  bool forked = false;         // a child of a process that had initialised: nothing works any more
  bool deinitialised = false;  // the shared library was unloaded, or the process ends

  std::unique_ptr<SharedDevices> shared;  // null: nobody else uses the devices
  std::vector<std::unique_ptr<Device>> devices;
  AddressSpace space;
  Scheduler scheduler{this};
  HostThread host_thread{this};
  MemoryBlocks blocks{this};
  std::unordered_map<CUmemGenericAllocationHandle, VirtualHandle> virtual_handles;
  std::unordered_map<const PhysicalAllocation*, CUmemGenericAllocationHandle> handle_of;
  std::map<std::uint64_t, HostRange> host_ranges;

  HandleTable<Context, CUcontext> contexts{0x10'0000'0000};
  HandleTable<Stream, CUstream> streams{0x11'0000'0000};
  HandleTable<Event, CUevent> events{0x12'0000'0000};
  HandleTable<Pool, CUmemoryPool> pools{0x13'0000'0000};
  HandleTable<Graph, CUgraph> graphs{0x14'0000'0000};
  std::map<CUdeviceptr, std::uint64_t> opened_ipc;  // memory of other processes: where it is mapped, how large
  std::map<CUdeviceptr, std::shared_ptr<GraphMemory>> live_graph_memory;  // for the program to free
  HandleTable<NodeReference, CUgraphNode> graph_nodes{0x1a'0000'0000};
  HandleTable<UserObject, CUuserObject> user_objects{0x1b'0000'0000};
  HandleTable<GraphExec, CUgraphExec> graph_execs{0x15'0000'0000};
  HandleTable<Array, CUarray> arrays{0x17'0000'0000};
  HandleTable<CodeModule, CUmodule> code_modules{0x18'0000'0000};  // libraries too
  HandleTable<Function, CUfunction> functions{0x19'0000'0000};     // kernels too
  std::vector<std::shared_ptr<Context>> all_contexts;  // destroyed ones too: streams and threads point to them
  std::vector<std::shared_ptr<Capture>> captures;      // in progress

  std::uint64_t corruptions = 0;
  std::string first_corruption;
  std::uint64_t last_id = 0;
};

}  // namespace stalloc::simcuda
