// The one table of CUDA driver functions through which the runtime talks to the device.
//
// The same allocator runs over the real driver, the simulated one and a failing one: each fills this table. Entries are
// typed by the declarations of cuda.h itself. interpose fills it with *unwrapped* driver functions, so that a call from
// here never comes back as a request.
#pragma once

#include <cuda.h>

namespace stalloc::runtime {

// name of the member, exported symbol (the versioned name that cuda.h maps the function to is taken by the
// preprocessor), required: without it the runtime serves nothing.
#define STALLOC_DRIVER_FUNCTIONS(X)      \
  X(cuInit, true)                        \
  X(cuDeviceGetCount, true)              \
  X(cuDeviceGetName, true)               \
  X(cuDeviceGetAttribute, true)          \
  X(cuCtxGetCurrent, true)               \
  X(cuCtxSetCurrent, true)               \
  X(cuCtxGetDevice, true)                \
  X(cuCtxPushCurrent, true)              \
  X(cuCtxPopCurrent, true)               \
  X(cuCtxSynchronize, true)              \
  X(cuMemGetInfo, true)                  \
  X(cuMemGetAllocationGranularity, true) \
  X(cuMemAddressReserve, true)           \
  X(cuMemAddressFree, true)              \
  X(cuMemCreate, true)                   \
  X(cuMemRelease, true)                  \
  X(cuMemMap, true)                      \
  X(cuMemUnmap, true)                    \
  X(cuMemSetAccess, true)                \
  X(cuMemAlloc, true)                    \
  X(cuMemFree, true)                     \
  X(cuMemPoolTrimTo, false)              \
  X(cuDeviceGetDefaultMemPool, false)    \
  X(cuStreamGetCtx, true)                \
  X(cuStreamGetId, false)                \
  X(cuStreamIsCapturing, true)           \
  X(cuStreamQuery, true)                 \
  X(cuStreamWaitEvent, true)             \
  X(cuStreamSynchronize, true)           \
  X(cuEventCreate, true)                 \
  X(cuEventDestroy, true)                \
  X(cuEventRecord, true)                 \
  X(cuEventQuery, true)                  \
  X(cuEventSynchronize, true)            \
  X(cuEventElapsedTime, false)           \
  X(cuThreadExchangeStreamCaptureMode, true)

struct DriverApi {
#define STALLOC_DRIVER_MEMBER(name, required) decltype(&::name) name = nullptr;
  // cuda.h maps some names to versioned ones with macros (cuMemAlloc -> cuMemAlloc_v2); the member takes the mapped
  // name, and so does every use of it that includes cuda.h.
  STALLOC_DRIVER_FUNCTIONS(STALLOC_DRIVER_MEMBER)
#undef STALLOC_DRIVER_MEMBER
};

}  // namespace stalloc::runtime
