// What libcuda.so.1 has beyond the static library: it is loaded and unloaded.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "machine.h"

namespace stalloc::simcuda {
namespace {

// SIMCUDA_REPORT=FILE: one JSON object about the run, for tests of programs that know nothing of the simulation.
void WriteReport(const Machine& machine) {
  const char* path = std::getenv("SIMCUDA_REPORT");
  if (path == nullptr || *path == 0) return;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::uint64_t peak_bytes = 0;
  for (const auto& device : machine.devices) peak_bytes = std::max(peak_bytes, device->memory->peak_bytes());
  std::fprintf(file,
               "{\"corruptions\": %llu, \"first_corruption\": \"%s\", \"peak_physical_bytes\": %llu, "
               "\"virtual_time_ns\": %llu}\n",
               static_cast<unsigned long long>(machine.corruptions), machine.first_corruption.c_str(),
               static_cast<unsigned long long>(peak_bytes),
               static_cast<unsigned long long>(machine.ledger.virtual_time_ns()));
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
