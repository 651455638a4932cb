// Contexts: streams and allocations belong to one; its error is sticky. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cuda_driver.h"
#include "free_ranges.h"
#include "stream.h"

namespace stalloc::simcuda {

struct Context {
  int device = 0;
  bool primary = false;
  bool alive = true;
  unsigned flags = 0;
  std::uint64_t id = 0;
  CUcontext handle = nullptr;
  CUresult error = CUDA_SUCCESS;  // what broke it, for ever

  std::shared_ptr<Stream> legacy;
  std::map<std::uint64_t, std::shared_ptr<Stream>> per_thread;  // thread -> its default stream
  std::vector<std::shared_ptr<Stream>> streams;                 // all but the legacy one, until they are drained
  std::set<CUstream> stream_handles;
  std::set<CUevent> event_handles;
  std::set<int> peers;           // devices whose memory it may access
  FreeRanges heap;               // room for small blocks in mapped chunks
  Context* memory_of = nullptr;  // of a green context: the primary one, whose memory it uses

  // The context that what is allocated here ends with.
  Context& Owner() { return memory_of != nullptr ? *memory_of : *this; }
};

// Makes `context` ready for use: its legacy stream, a clean state.
void OpenContext(Machine& machine, Context& context);
// Waits for its work and gives back what it owned.
void CloseContext(Machine& machine, Context& context);

std::shared_ptr<Stream> NewStream(Machine& machine, Context& context, Stream::Kind kind, unsigned flags, int priority);
std::shared_ptr<Stream> PerThreadStream(Machine& machine, Context& context, std::uint64_t thread);

}  // namespace stalloc::simcuda
