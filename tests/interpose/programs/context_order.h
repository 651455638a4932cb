// Several contexts of one device, each with streams of its own: stream 0 of one is not stream 0 of another, and neither
// waits for the other. Memory that one has freed and still works on must not be handed to another before that work.
//
// Each case leaves a read of a block pending in one context, frees the block, and overwrites as much memory as it can
// get in the other. The simulated device sees a read that finds what another wrote. Under SIMCUDA_SEED=0 nothing runs
// before something waits for it: the overwriting context is waited for first.
#pragma once

#include <cuda.h>
#include <simcuda/extensions.h>

#include <cstddef>

#include "check.h"

namespace context_order {

constexpr std::size_t kBytes = 6 << 20;

// The device is first asked for memory in `first`.
struct Contexts {
  CUcontext first = nullptr, second = nullptr;
};

// --- What cases are made of: context_order_use.cpp -------------------------------------------------------------------

CUcontext Made();  // another one, current to nobody
void Enter(CUcontext context);
void Synchronise(CUcontext context);
CUstream NewStream();

CUdeviceptr Allocate(CUstream stream);
CUdeviceptr Allocate();

// What was written is still to be read.
void Use(CUdeviceptr block, CUstream stream);

// Writes over whatever is to be had in the current context, and lets that be the first to execute.
void Overwrite(CUstream stream);
// Without an order: the memory is anybody's at once.
void OverwriteUnordered();

// --- Cases -----------------------------------------------------------------------------------------------------------

// context_order_streams.cpp: freed on one stream, wanted on another.
void DefaultStreams(const Contexts& contexts);
void LegacyStreams(const Contexts& contexts);
void PerThreadStreams(const Contexts& contexts);
void FreedElsewhere(const Contexts& contexts);
void MadeStreams(const Contexts& contexts);
// context_order_unordered.cpp: freed without a stream.
void FreedWithoutStream(const Contexts& contexts);
void FreedBesideWaiting(const Contexts& contexts);
void UsedElsewhere(const Contexts& contexts);
// context_order_idle.cpp: freed, and somebody wants what is idle.
void Trimmed(const Contexts& contexts);
void ShortOfMemory(const Contexts& contexts);
void FreedBesideCapture(const Contexts& contexts);
// context_order_threads.cpp: streams that are one thread's own.
void ThreadsThatEnd(const Contexts& contexts);
void TrimmedByAnotherThread(const Contexts& contexts);
// context_order_ends.cpp: contexts that end.
void ContextsThatEnd(const Contexts& contexts);
void ContextThatEndsAtWork(const Contexts& contexts);
// context_order_random.cpp: anything in any order.
void Random(const Contexts& contexts);

}  // namespace context_order
