// What libcuda.so.1 has beyond the static library: it is loaded and unloaded.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "machine.h"

namespace stalloc::simcuda {
namespace {

// The name with each %p replaced by the process id, so that the processes of one command have a file each.
std::string WithProcessId(std::string name) {
  const std::string id = std::to_string(::getpid());
  for (std::size_t at = name.find("%p"); at != std::string::npos; at = name.find("%p", at + id.size()))
    name.replace(at, 2, id);
  return name;
}

// SIMCUDA_REPORT=FILE: one JSON object about the run, of a program that knows nothing of the simulation.
void WriteReport(const Machine& machine) {
  const char* path = std::getenv("SIMCUDA_REPORT");
  if (path == nullptr || *path == 0) return;
  std::FILE* file = std::fopen(WithProcessId(path).c_str(), "w");
  if (file == nullptr) return;
  std::uint64_t peak_bytes = 0;
  std::string devices;
  for (const auto& device : machine.devices) {
    const DeviceMemory& memory = *device->memory;
    peak_bytes = std::max(peak_bytes, memory.peak_bytes());
    devices += (devices.empty() ? "" : ", ") + ("{\"device\": " + std::to_string(device->index)) +
               ", \"peak_physical_bytes\": " + std::to_string(memory.peak_bytes()) +
               ", \"memory_bytes\": " + std::to_string(memory.total_bytes()) +
               ", \"refused_requests\": " + std::to_string(memory.refused_requests()) + "}";
  }
  std::fprintf(file,
               "{\"corruptions\": %llu, \"first_corruption\": \"%s\", \"peak_physical_bytes\": %llu, "
               "\"virtual_time_ns\": %llu, \"devices\": [%s]}\n",
               static_cast<unsigned long long>(machine.corruptions), machine.first_corruption.c_str(),
               static_cast<unsigned long long>(peak_bytes),
               static_cast<unsigned long long>(machine.ledger.virtual_time_ns()), devices.c_str());
  std::fclose(file);
}

// After this, as with the real driver, calls are answered with CUDA_ERROR_DEINITIALIZED.
__attribute__((destructor)) void Unload() {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  if (machine.initialised && !machine.forked) WriteReport(machine);
  machine.deinitialised = true;
}

}  // namespace
}  // namespace stalloc::simcuda
