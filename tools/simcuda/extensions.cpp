// simcuda/extensions.h.
#include "simcuda/extensions.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "call.h"
#include "simcuda/device.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

CUresult QueueKernel(CUstream handle, std::vector<simcudaRange> reads, std::vector<simcudaRange> writes,
                     std::uint64_t duration_ns) {
  // A launch is checked as cuLaunchHostFunc is: it needs an initialised driver and a stream.
  return EnterStream(EntryPoint::k_simcudaLaunch, handle, [&](Call& call, Stream& stream) {
    return Submit(call, stream, std::make_shared<Kernel>(std::move(reads), std::move(writes), duration_ns));
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult simcudaLaunch(CUstream stream, const simcudaRange* reads, size_t read_count,
                                      const simcudaRange* writes, size_t write_count, uint64_t duration_ns) {
  return QueueKernel(stream, {reads, reads + read_count}, {writes, writes + write_count}, duration_ns);
}

SIMCUDA_EXPORT CUresult simcudaWriteTag(CUstream stream, CUdeviceptr address, size_t size_bytes, uint64_t tag) {
  return QueueKernel(stream, {}, {{address, size_bytes, tag}}, 0);
}

SIMCUDA_EXPORT CUresult simcudaReadTag(CUstream stream, CUdeviceptr address, size_t size_bytes, uint64_t tag) {
  return QueueKernel(stream, {{address, size_bytes, tag}}, {}, 0);
}

SIMCUDA_EXPORT int* simcudaRuntimeError(void) {
  thread_local constinit int error = 0;
  return &error;
}

SIMCUDA_EXPORT uint64_t simcudaCorruptions(void) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.corruptions;
}

SIMCUDA_EXPORT size_t simcudaFirstCorruption(char* text, size_t capacity) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  if (text != nullptr && capacity > 0) {
    const size_t length = std::min(capacity - 1, machine.first_corruption.size());
    std::memcpy(text, machine.first_corruption.data(), length);
    text[length] = 0;
  }
  return machine.first_corruption.size();
}

SIMCUDA_EXPORT int simcudaFailNext(const char* function, unsigned nth, CUresult code) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.ledger.FailNext(function, nth, code) ? 1 : 0;
}

SIMCUDA_EXPORT uint64_t simcudaCallCount(const char* function) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.ledger.CallCount(function);
}

SIMCUDA_EXPORT uint64_t simcudaVirtualTimeNs(void) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.ledger.virtual_time_ns();
}

SIMCUDA_EXPORT uint64_t simcudaPhysicalBytes(int device) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  const Device* found = machine.FindDevice(device);
  return found == nullptr ? 0 : found->memory->used_bytes();
}

SIMCUDA_EXPORT uint64_t simcudaUsedBytes(int device) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  const Device* found = machine.FindDevice(device);
  return found == nullptr ? 0 : found->memory->total_bytes() - found->memory->free_bytes();
}

SIMCUDA_EXPORT size_t simcudaProcesses(int device, int* processes, uint64_t* bytes, size_t capacity) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  const Device* found = machine.FindDevice(device);
  if (found == nullptr) return 0;
  std::vector<std::pair<int, std::uint64_t>> known;
  if (machine.shared != nullptr)
    known = machine.shared->Processes(device);
  else if (found->memory->used_bytes() != 0)
    known.emplace_back(getpid(), found->memory->used_bytes());
  for (std::size_t i = 0; i < std::min(capacity, known.size()); ++i) {
    processes[i] = known[i].first;
    bytes[i] = known[i].second;
  }
  return known.size();
}

SIMCUDA_EXPORT uint64_t simcudaPeakPhysicalBytes(int device) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  const Device* found = machine.FindDevice(device);
  return found == nullptr ? 0 : found->memory->peak_bytes();
}

SIMCUDA_EXPORT void simcudaResetPeak(int device) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  if (const Device* found = machine.FindDevice(device)) found->memory->ResetPeak();
}

SIMCUDA_EXPORT size_t simcudaPendingOperations(void) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.scheduler.pending_operations();
}

SIMCUDA_EXPORT size_t simcudaAdvance(size_t steps) {
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.scheduler.Advance(steps);
}

SIMCUDA_EXPORT void simcudaReset(const simcudaConfig* config) {
  Config fresh;
  fresh.device_count = config->device_count;
  fresh.memory_bytes = config->memory_bytes;
  fresh.seed = config->seed;
  fresh.max_pending = config->max_pending;
  Reset(fresh);
}

}  // namespace stalloc::simcuda
