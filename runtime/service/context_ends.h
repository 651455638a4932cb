// A context ends in two steps: before the driver is asked to destroy it, while its handle means nothing else, and
// afterwards, when it is known whether the driver has. What each part of the service does about it. `ended` false: all
// is as it was before the first step. Private to service*.cpp. Any thread.
#pragma once

#include <cuda.h>

namespace stalloc::runtime {

struct Process;

// living_contexts.cpp
void LivingContextEnds(CUcontext context) noexcept;
void LivingContextEnded(CUcontext context, bool ended) noexcept;

// service_peers.cpp: the access that it has enabled for its device ends with it.
void PeersContextEnds(Process& process, CUcontext context) noexcept;
void PeersContextEnded(Process& process, CUcontext context, bool ended) noexcept;

// service_captures.cpp: so do captures in its streams.
void CapturesContextEnds(CUcontext context) noexcept;
void CapturesContextEnded(CUcontext context, bool ended) noexcept;

}  // namespace stalloc::runtime
