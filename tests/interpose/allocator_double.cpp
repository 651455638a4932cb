// A stand-in for the allocator behind runtime/service/service.h: it serves everything, from addresses that no device
// has, and writes down what it was asked. With it the hooks are tested for what they are there to do: to ask once, in
// the right words, and to do what they are told.
//
// PROBE_LOG names the file that Finish writes: one "name count" line a question, and the streams it heard of.
// Sizes that end in 7 are passed through, those that end in 9 refused; PROBE_REFUSE makes Start refuse.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "runtime/base/settings.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/program_pools.h"
#include "runtime/service/service.h"

namespace stalloc::runtime {
namespace {

constexpr CUdeviceptr kBase = 0x600000000000;
constexpr CUdeviceptr kEnd = 0x610000000000;

struct Double {
  std::mutex mutex;
  DriverApi driver;
  bool started = false;
  bool forked = false;
  CUdeviceptr next = kBase;
  std::map<CUdeviceptr, std::size_t> live;
  std::map<std::string, long> counts;
  std::set<std::string> streams;
};

Double& It() {
  static Double& it = *new Double;
  return it;
}

void Count(const char* name) { ++It().counts[name]; }

void CountStream(const char* what, StreamOrder order) {
  if (!order) {
    Count((std::string(what) + ".synchronous").c_str());
  } else {
    const auto stream = reinterpret_cast<std::uintptr_t>(*order);
    Count((std::string(what) + (stream <= 2 ? ".stream" + std::to_string(stream) : ".stream")).c_str());
  }
}

}  // namespace

bool Start(const DriverApi& driver, const Settings&) {
  Double& it = It();
  const std::lock_guard lock(it.mutex);
  Count("start");
  it.driver = driver;
  it.started = std::getenv("PROBE_REFUSE") == nullptr;
#define STALLOC_CHECK(name, required) \
  if (required && driver.name == nullptr) Count("start.incomplete");
  STALLOC_DRIVER_FUNCTIONS(STALLOC_CHECK)
#undef STALLOC_CHECK
  return it.started;
}

bool Started() noexcept { return It().started && !It().forked; }

Answer Allocate(CUdeviceptr* address, std::size_t size_bytes, StreamOrder order, CUresult* result) noexcept {
  Double& it = It();
  CUcontext context = nullptr;
  if (!Started() || it.driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr)
    return Answer::kPassThrough;
  const std::lock_guard lock(it.mutex);
  if (size_bytes % 10 == 7) {
    Count("allocate.declined");
    return Answer::kPassThrough;
  }
  if (size_bytes % 10 == 9) {
    Count("allocate.refused");
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    return Answer::kServed;
  }
  Count("allocate.served");
  CountStream("allocate", order);
  *address = it.next;
  it.live[it.next] = size_bytes;
  it.next += (size_bytes + 511) / 512 * 512;
  *result = CUDA_SUCCESS;
  return Answer::kServed;
}

Answer Free(CUdeviceptr address, StreamOrder order, CUresult* result) noexcept {
  Double& it = It();
  if (!Started() || address < kBase || address >= kEnd) return Answer::kPassThrough;
  const std::lock_guard lock(it.mutex);
  const bool was_live = it.live.erase(address) != 0;
  Count(was_live ? "free.served" : "free.refused");
  if (was_live) CountStream("free", order);
  *result = was_live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  return Answer::kServed;
}

int DeviceOf(StreamOrder) noexcept { return 0; }

bool ServesAmongSeveralDevices() noexcept { return false; }

int OwnerOf(CUdeviceptr, CUcontext*) noexcept { return -1; }

bool HasAccess(int, int) noexcept { return true; }
bool GiveAccess(int, int) noexcept { return true; }

bool Owns(CUdeviceptr address) noexcept { return Started() && address >= kBase && address < kEnd; }

bool FindBlock(CUdeviceptr address, CUdeviceptr* base, std::size_t* size_bytes, std::uint64_t* buffer_id) noexcept {
  Double& it = It();
  const std::lock_guard lock(it.mutex);
  auto block = it.live.upper_bound(address);
  if (block == it.live.begin()) return false;
  --block;
  if (address >= block->first + block->second) return false;
  *base = block->first;
  *size_bytes = block->second;
  *buffer_id = 4242;
  return true;
}

std::uint64_t IdleBytes(int) noexcept { return 1 << 20; }

PoolStatistics GetPoolStatistics(int) noexcept {
  Double& it = It();
  const std::lock_guard lock(it.mutex);
  PoolStatistics statistics;
  for (const auto& [base, size_bytes] : it.live) statistics.used_bytes += size_bytes;
  statistics.used_high_bytes = 1000000;
  statistics.reserved_bytes = 2000000;
  statistics.reserved_high_bytes = 3000000;
  return statistics;
}

MemoryCounters CountersOf(int) noexcept { return {}; }
std::string HistoryText(int, bool) { return "{}"; }

constinit thread_local ProgramPool* pool_in_use = nullptr;
ProgramPool* MakePool(PoolAllocateFunction*, PoolFreeFunction*) noexcept { return nullptr; }
void EnterPool(ProgramPool*) noexcept {}
void LeavePool() noexcept {}
void EndPool(ProgramPool*) noexcept {}
CUresult AllocateInPool(CUdeviceptr*, std::size_t, CUstream) noexcept { return CUDA_ERROR_NOT_SUPPORTED; }
bool FreeInPool(CUdeviceptr, CUstream) noexcept { return false; }

void ResetPoolHigh(int, bool used, bool reserved) noexcept {
  const std::lock_guard lock(It().mutex);
  if (used) Count("reset.used");
  if (reserved) Count("reset.reserved");
}

void Trim(int, std::uint64_t) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("trim");
}

bool ReleaseForRetry(int) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("release");
  return true;
}

void NoteOutOfMemory(int device, std::size_t size_bytes, const char* function) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(("out_of_memory." + std::to_string(device) + "." + function + "." + std::to_string(size_bytes)).c_str());
}

void NotePassedThrough(std::size_t size_bytes) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(size_bytes != 0 ? "passed.allocate" : "passed.free");
}

void NoteStreamDestroyed(CUstream) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("stream.destroyed");
}

void NoteContextLeft() noexcept {
  const std::lock_guard lock(It().mutex);
  Count("context.left");
}

void NoteContextMade(CUcontext, CUdevice) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("context.made");
}

void NoteGreenContext(CUcontext, CUcontext, CUdevice) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("context.green");
}
int DeviceOfContext(CUcontext) noexcept { return 0; }
EndingContext NoteGreenContextEnds(CUcontext context, CUcontext primary) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("context.green.ends");
  return {.context = context, .primary = primary, .number = 7};
}

EndingContext NoteContextEnds(CUcontext context) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("context.ends");
  return {.context = context, .number = 7};
}

void NoteContextEnded(const EndingContext& ending, bool ended) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(ending.number == 7 && ended ? "context.destroyed" : "context.stays");
}

void NoteCaptureBegan(CUstream) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("capture.began");
}

void NoteCaptureEnded(CUstream) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("capture.ended");
}

void NoteCapturingStreamEnds(CUstream) noexcept {}
void NoteCapturingStreamEnded(CUstream, bool ended) noexcept {
  const std::lock_guard lock(It().mutex);
  if (ended) Count("capture.ended");
}

std::uint64_t NoteEventRecords(CUevent, CUstream) noexcept { return 8; }
void NoteEventRecorded(CUevent, CUstream stream, std::uint64_t record, bool recorded) noexcept {
  const std::lock_guard lock(It().mutex);
  if (record == 8 && recorded) CountStream("event.recorded", stream);
}

std::uint64_t RecordOf(CUevent, CUstream) noexcept { return 9; }
void NoteStreamWaits(CUstream stream, CUevent, std::uint64_t record) noexcept {
  const std::lock_guard lock(It().mutex);
  if (record == 9) CountStream("stream.waits", stream);
}

void NoteEventDestroyed(CUevent) noexcept {
  const std::lock_guard lock(It().mutex);
  Count("event.destroyed");
}

void NotePeerAccess(int owner, int peer, CUcontext, bool enabled) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(("peer." + std::to_string(owner) + "." + std::to_string(peer) + (enabled ? ".on" : ".off")).c_str());
}

void NotePoolAccess(int owner, int peer, CUmemAccess_flags flags) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(("pool." + std::to_string(owner) + "." + std::to_string(peer) + "." + std::to_string(flags)).c_str());
}

void NoteNeed(Need need) noexcept {
  const std::lock_guard lock(It().mutex);
  Count(need == Need::kIpc ? "need.ipc" : "need.graph-pools");
}

void NoteForkedChild() noexcept { It().forked = true; }

void Finish() noexcept {
  Double& it = It();
  const std::lock_guard lock(it.mutex);
  Count("finish");
  const char* path = std::getenv("PROBE_LOG");
  std::FILE* log = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (log == nullptr) return;
  for (const auto& [name, count] : it.counts) std::fprintf(log, "%s %ld\n", name.c_str(), count);
  std::fclose(log);
}

}  // namespace stalloc::runtime
