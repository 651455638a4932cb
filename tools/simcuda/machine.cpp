#include "machine.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "simcuda/extensions.h"

namespace stalloc::simcuda {

Machine& Machine::Get() {
  static Machine* const machine = [] {
    auto* made = new Machine;
    std::string error;
    made->Restart(ConfigFromEnvironment(&error));
    if (!error.empty()) std::fprintf(stderr, "simcuda: %s\n", error.c_str());
    made->usable = error.empty();
    pthread_atfork([] { Get().mutex.lock(); }, [] { Get().mutex.unlock(); },
                   [] {
                     Get().forked = Get().initialised;
                     Get().mutex.unlock();
                   });
    return made;
  }();
  return *machine;
}

void Machine::Restart(const Config& fresh) {
  scheduler.Stop();
  for (const std::shared_ptr<Capture>& capture : captures) capture->streams.clear();
  captures.clear();
  for (const std::shared_ptr<Context>& context : all_contexts) {
    if (context->alive) {
      blocks.ReleaseAll(*context);
      context->alive = false;
    }
    context->legacy.reset();
    context->per_thread.clear();
    context->streams.clear();
  }
  all_contexts.clear();
  for (const auto& [address, range] : host_ranges) {
    if (range.allocated) std::free(reinterpret_cast<void*>(address));
  }
  host_ranges.clear();
  contexts.Clear();
  streams.Clear();
  events.Clear();
  graph_execs.Clear();
  graphs.Clear();
  graph_nodes.Clear();
  live_graph_memory.clear();
  opened_ipc.clear();
  user_objects.Clear();
  pools.Clear();
  arrays.Clear();
  code_modules.Clear();
  functions.Clear();
  devices.clear();
  virtual_handles.clear();
  handle_of.clear();
  blocks.Clear();
  space = AddressSpace();
  ledger = Ledger();
  corruptions = 0;
  first_corruption.clear();
  initialised = forked = false;
  ++epoch;

  config = fresh;
  shared.reset();
  if (!config.shared.empty()) {
    std::string error;
    shared = SharedDevices::Open(config.shared, &error);
    if (shared == nullptr) std::fprintf(stderr, "simcuda: %s\n", error.c_str());
  }
  scheduler.Start(config.seed, config.max_pending, config.clock);
  for (int index = 0; index < config.device_count; ++index) {
    auto device = std::make_unique<Device>();
    device->index = index;
    device->memory = std::make_shared<DeviceMemory>(index, config.memory_bytes, shared.get());
    device->primary = std::make_shared<Context>();
    device->primary->device = index;
    device->primary->primary = true;
    device->primary->alive = false;
    device->primary->handle = contexts.Add(device->primary);
    all_contexts.push_back(device->primary);
    device->default_pool = std::make_shared<Pool>(this, index);
    device->default_pool->handle = pools.Add(device->default_pool);
    device->current_pool = device->default_pool;
    devices.push_back(std::move(device));
  }
}

HostRange* Machine::FindHostRange(std::uint64_t address, std::uint64_t* begin) {
  auto it = host_ranges.upper_bound(address);
  if (it == host_ranges.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.size_bytes) return nullptr;
  if (begin != nullptr) *begin = it->first;
  return &it->second;
}

void Reset(const Config& config) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.Restart(config);
}

}  // namespace stalloc::simcuda
