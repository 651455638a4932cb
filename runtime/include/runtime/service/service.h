// The door between interpose and the runtime: everything that a hook may ask for.
//
// Every function may be called from any thread, never throws (but Start), takes no lock that is held over a driver
// call, and does nothing but say "pass through" before Start has succeeded or after the process has forked. Calls that
// the runtime makes to the driver go through the DriverApi given to Start, so they never come back as requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/driver_api.h"
#include "runtime/base/memory_figures.h"

namespace stalloc::runtime {

struct Settings;
class DeviceService;
enum class Need : std::uint8_t;

enum class Answer : bool { kPassThrough = false, kServed = true };

// The stream whose order a request follows. In `_ptsz` functions interpose has already turned 0 into
// CU_STREAM_PER_THREAD; 0 and CU_STREAM_LEGACY mean the legacy stream here. nullopt: the synchronous entry points
// (cuMemAlloc, cuMemFree), which order against all work of the context.
//
// Used like an optional, but one word, which is passed in a register: an optional's flag is written as a byte and read
// back as part of a word, for which the processor waits, twice a request.
class StreamOrder {
 public:
  constexpr StreamOrder(std::nullopt_t = std::nullopt) noexcept {}
  StreamOrder(CUstream stream) noexcept : handle_(reinterpret_cast<std::uintptr_t>(stream)) {}

  explicit operator bool() const noexcept { return handle_ != kNone; }
  CUstream operator*() const noexcept {
    return reinterpret_cast<CUstream>(handle_);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  static constexpr std::uintptr_t kNone = ~std::uintptr_t{0};  // the address of nothing
  std::uintptr_t handle_ = kNone;
};

struct PoolStatistics {
  std::uint64_t used_bytes = 0;       // live, as the driver would count it
  std::uint64_t used_high_bytes = 0;  // since the start or the last reset
  std::uint64_t reserved_bytes = 0;   // physical memory held
  std::uint64_t reserved_high_bytes = 0;
};

// Starts serving. `driver` must hold unwrapped functions. Returns false, after one line that says why, if this process
// cannot be served (no VMM support, STALLOC_DISABLE, ...): every later call then answers kPassThrough. Safe to call
// again and from several threads: the first call decides. Throws for want of host memory: then nothing is decided.
bool Start(const DriverApi& driver, const Settings& settings);
bool Started() noexcept;

// Allocates `size_bytes` (> 0) on the device of the order's stream; without one, on that of the current context.
// kServed: *result is CUDA_SUCCESS and *address is set. kPassThrough: forward the call to the driver (the stream is
// capturing, no context is current, memory ran out: the driver then gives the program its own error; under a memory
// limit the error is answered here, kServed with CUDA_ERROR_OUT_OF_MEMORY); nothing was touched, and the caller reports
// the outcome by NotePassedThrough.
Answer Allocate(CUdeviceptr* address, std::size_t size_bytes, StreamOrder order, CUresult* result) noexcept;

// Frees a block. kServed: the address is this allocator's, *result is what the program gets (CUDA_SUCCESS, or the
// driver's error for a double or interior free). kPassThrough: not ours.
Answer Free(CUdeviceptr address, StreamOrder order, CUresult* result) noexcept;

// The device on which a request of this order is served: the stream's, or without one the current context's; -1 if none
// is.
int DeviceOf(StreamOrder order) noexcept;

// True if this process sees several devices and one of them is served: memory and who acts on it may be of two.
bool ServesAmongSeveralDevices() noexcept;

// The device whose served memory `address` lies in, and the context in which it is served; -1 if it is not served
// memory.
int OwnerOf(CUdeviceptr address, CUcontext* context) noexcept;

// True if `address` lies in a range that this allocator owns (live block or not).
bool Owns(CUdeviceptr address) noexcept;

// The live block that contains `address`. Returns false if there is none.
bool FindBlock(CUdeviceptr address, CUdeviceptr* base, std::size_t* size_bytes, std::uint64_t* buffer_id) noexcept;

// Bytes of physical memory held on `device` but not live: what cuMemGetInfo must add to "free".
std::uint64_t IdleBytes(int device) noexcept;

PoolStatistics GetPoolStatistics(int device) noexcept;
MemoryCounters CountersOf(int device) noexcept;

// What lies where on `device`, and what its history (history.h) has: see History::Text. Throws std::bad_alloc.
std::string HistoryText(int device, bool with_events);

void ResetPoolHigh(int device, bool used, bool reserved) noexcept;

// Gives idle pages back to the driver until at most `keep_bytes` are held idle. Synchronises nothing: pages whose last
// use is still pending stay.
void Trim(int device, std::uint64_t keep_bytes) noexcept;

// Gives back whatever is idle because the driver just refused memory to somebody else in this process (a driver
// allocation that was passed through, cuMemCreate, cuMemHostAlloc, ...). Returns true if anything was given back and a
// retry is worth while.
bool ReleaseForRetry(int device) noexcept;

// The driver has refused memory to somebody in this process, the retry included, and the program is about to be told.
// `size_bytes` is 0 where it is not known; `function` is the driver's name of what was asked.
void NoteOutOfMemory(int device, std::size_t size_bytes, const char* function) noexcept;

// An allocation or free went to the driver instead (bytes as requested; 0 for a free).
void NotePassedThrough(std::size_t size_bytes) noexcept;

// Stream and context life. Handles are recycled, so the first of each pair must be called *before* the real destroy.
void NoteStreamDestroyed(CUstream stream) noexcept;
// What is left to be done for a context when the driver has destroyed it, or undone where it has refused to.
struct EndingContext {
  CUcontext context = nullptr;
  CUcontext primary = nullptr;       // of a green one
  DeviceService* service = nullptr;  // nullptr: nothing was asked for in it
  std::uint64_t number = 0;          // of its ending; 0: the process is exiting
  bool last = false;                 // the service's last one
};
[[nodiscard]] EndingContext NoteContextEnds(CUcontext context) noexcept;
// What was allocated in a green context stays: it is the primary context's.
[[nodiscard]] EndingContext NoteGreenContextEnds(CUcontext context, CUcontext primary) noexcept;
void NoteContextEnded(const EndingContext& ending, bool ended) noexcept;
// A context of `device` was made: there may be work in it that is ordered behind no other context's. To be told before
// serving starts, too; telling again of one that lives does no harm.
void NoteContextMade(CUcontext context, CUdevice device) noexcept;
// A green context of this primary context was made. To be told before serving starts, too.
void NoteGreenContext(CUcontext context, CUcontext primary, CUdevice device) noexcept;
// The device of a context that was made or in which something was asked for; -1: it is not known.
int DeviceOfContext(CUcontext context) noexcept;
// The calling thread's current context may be none from now on.
void NoteContextLeft() noexcept;

// The driver has let `peer` access the memory of device `owner`, or ended that: at the word of `context`, of device
// `peer` (cuCtxEnablePeerAccess), or of the owner's default pool (cuMemPoolSetAccess). Served memory follows, what
// there is and what will be, before these return.
void NotePeerAccess(int owner, int peer, CUcontext context, bool enabled) noexcept;
void NotePoolAccess(int owner, int peer, CUmemAccess_flags flags) noexcept;

// True if `device` may read and write the served memory of device `owner`: its own, or by the word of the above or
// below.
bool HasAccess(int owner, int device) noexcept;

// Lets `device` read and write the served memory of device `owner` from now on: for calls that need no access to memory
// of cuMemAlloc, and can be made of mapped memory in no other way. The hardware must be able to. Costs a driver call
// for each page that is mapped, once; and pages mapped later are mapped for both devices. False if the driver refuses.
bool GiveAccess(int owner, int device) noexcept;

// The program has just shown a need that cannot be met in this run (program_needs.h): says so, once, with the setting
// that helps, and keeps it for the next run.
void NoteNeed(Need need) noexcept;

// Captures in progress in this process: while there is one the serving path asks the driver. By the stream in which
// they began; it may have been destroyed since.
void NoteCaptureBegan(CUstream stream) noexcept;
void NoteCaptureEnded(CUstream stream) noexcept;
// A stream that the program has made, and in which a capture may be in progress: before the real destroy and after it.
void NoteCapturingStreamEnds(CUstream stream) noexcept;
void NoteCapturingStreamEnded(CUstream stream, bool ended) noexcept;

// The program's own ordering, which makes memory reusable early: E is recorded on S; T waits for event E. In two steps,
// before the driver is asked and afterwards, for other threads may use the stream and the event meanwhile: the first
// takes down what holds at least, and gives it a number (0: nothing); the second is told what became of it.
std::uint64_t NoteEventRecords(CUevent event, CUstream stream) noexcept;
void NoteEventRecorded(CUevent event, CUstream stream, std::uint64_t record, bool recorded) noexcept;
std::uint64_t RecordOf(CUevent event, CUstream waiting) noexcept;
void NoteStreamWaits(CUstream stream, CUevent event, std::uint64_t record) noexcept;
void NoteEventDestroyed(CUevent event) noexcept;  // the handle may come back for another event

// pthread_atfork child handler: from here on everything passes through; memory of the parent is not touched.
void NoteForkedChild() noexcept;

// Writes the summary line, the kept plan and the end of the trace. Called once, from the library's destructor or an
// atexit handler; calls no CUDA function.
void Finish() noexcept;

}  // namespace stalloc::runtime
