// Call: what every entry point does before its body: take the lock, count, charge, check.
//
// Enter turns the body's exceptions into error codes, so that none leaves an entry point.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

#include "cuda_driver.h"
#include "machine.h"

namespace stalloc::simcuda {

// What the driver keeps for a thread. Trivially destructible: calls may come after a thread's destructors have run.
struct ThreadState {
  static ThreadState& Get(Machine& machine);

  Context* current() const { return depth == 0 ? nullptr : stack[depth - 1]; }

  std::uint64_t id = 0;     // unique in the process
  std::uint64_t epoch = 0;  // of the machine that the rest refers to
  std::array<Context*, 64> stack{};
  std::size_t depth = 0;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool on_host_function = false;  // inside a callback, where no CUDA call is allowed
};

class Call {
 public:
  explicit Call(EntryPoint entry);

  CUresult result() const { return result_; }

  // The stream of a handle; null with *error set if there is none such, or no current context for a special handle.
  std::shared_ptr<Stream> FindStream(CUstream handle, CUresult* error);
  void AddCost(std::uint64_t cost_ns) { machine.ledger.AddCost(cost_ns); }

  Machine& machine;
  ThreadState& thread;
  Context* context = nullptr;  // current, or null

 private:
  CUresult Check(unsigned checks);

  std::unique_lock<std::mutex> lock_;
  CUresult result_ = CUDA_SUCCESS;
};

template <typename Body>
CUresult Enter(EntryPoint entry, Body&& body) noexcept {
  try {
    Call call(entry);
    return call.result() == CUDA_SUCCESS ? body(call) : call.result();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// In an entry point: body(call, *stream) on the stream of a handle, unless its context is broken.
template <typename Body>
CUresult EnterStream(EntryPoint entry, CUstream handle, Body&& body) noexcept {
  return Enter(entry, [&](Call& call) {
    CUresult error = CUDA_SUCCESS;
    const std::shared_ptr<Stream> stream = call.FindStream(handle, &error);
    if (stream == nullptr) return error;
    if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
    return body(call, *stream);
  });
}

// Queues work on a stream or adds it to the stream's capture, by CUDA's rules.
CUresult Submit(Call& call, Stream& stream, WorkPtr work);

// The host is about to wait for `stream` (null: for the whole current context).
CUresult CheckHostWait(Call& call, Stream* stream);

// References to the primary context of a device, which lives while there are any.
CUresult RetainPrimary(Call& call, CUcontext* context, int index);
CUresult ReleasePrimary(Call& call, int index);

// Puts the contents where other processes can have them too.
CUresult ShareContents(PhysicalAllocation& physical);

// Gives pool memory above the release thresholds back, as the driver does whenever the host has waited.
void TrimPools(Machine& machine, int device);

}  // namespace stalloc::simcuda
