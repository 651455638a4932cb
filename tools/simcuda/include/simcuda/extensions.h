/* What a test or tool can ask of the simulated device beyond CUDA's own interface.
 *
 * Plain C, exported by the shared libcuda.so.1 of simcuda and present in the static library. Every function may be
 * called from any thread. Those that queue work follow the rules of a kernel launch: they need cuInit and a stream, and
 * are counted and made to fail under the name simcudaLaunch. The others need nothing and count as no call.
 *
 * Device memory holds *tags*, not bytes: a write labels a range, a read compares the label. Work on a stream does so
 * when it executes, which is later than when it is queued. Memory that is reused too early therefore shows as a read
 * that finds another tag: a corruption. */
#pragma once

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCUDA_API __attribute__((visibility("default")))

/* Tags are chosen by the caller; 0 as the tag of a read means: any contents will do, only the access is checked. */
typedef struct {
  CUdeviceptr address;
  size_t size_bytes;
  uint64_t tag;
} simcudaRange;

/* Queues a kernel: when it executes, it checks the tags of `reads`, then labels `writes`, and takes `duration_ns` of
 * device time. An access to memory that is not mapped, or not accessible from the stream's device, is
 * CUDA_ERROR_ILLEGAL_ADDRESS, sticky in the stream's context. */
SIMCUDA_API CUresult simcudaLaunch(CUstream stream, const simcudaRange* reads, size_t read_count,
                                   const simcudaRange* writes, size_t write_count, uint64_t duration_ns);
SIMCUDA_API CUresult simcudaWriteTag(CUstream stream, CUdeviceptr address, size_t size_bytes, uint64_t tag);
SIMCUDA_API CUresult simcudaReadTag(CUstream stream, CUdeviceptr address, size_t size_bytes, uint64_t tag);

/* A variable of a library's code: its name and size, which the real driver reads off the image. */
SIMCUDA_API CUresult simcudaDeclareVariable(CUlibrary library, const char* name, size_t size_bytes);

/* Where the runtimes of the process keep the calling thread's last error. */
SIMCUDA_API int* simcudaRuntimeError(void);

/* Reads that found other contents than they expected, and a sentence about the first of them. The text is cut to
 * `capacity` bytes, always ends in 0 where capacity > 0, and is empty when there was none. Returns its full length. */
SIMCUDA_API uint64_t simcudaCorruptions(void);
SIMCUDA_API size_t simcudaFirstCorruption(char* text, size_t capacity);

/* The nth call (1: the next) of `function` fails with `code` and does nothing. A base name ("cuMemAlloc") stands for
 * all its versions, a symbol ("cuMemAllocAsync_ptsz") for one. Returns 0 if there is no such function. */
SIMCUDA_API int simcudaFailNext(const char* function, unsigned nth, CUresult code);

/* Calls so far, failed ones included. The name is read as in simcudaFailNext. */
SIMCUDA_API uint64_t simcudaCallCount(const char* function);

/* Time that the calls so far would have taken the host on an H200, added up over all threads. */
SIMCUDA_API uint64_t simcudaVirtualTimeNs(void);

/* Physical memory in use on a device and the most there was since the start or simcudaResetPeak. */
SIMCUDA_API uint64_t simcudaPhysicalBytes(int device);
/* The same over all processes that share the devices, and each of them; returns how many there are. */
SIMCUDA_API uint64_t simcudaUsedBytes(int device);
SIMCUDA_API size_t simcudaProcesses(int device, int* processes, uint64_t* bytes, size_t capacity);
SIMCUDA_API uint64_t simcudaPeakPhysicalBytes(int device);
SIMCUDA_API void simcudaResetPeak(int device);

/* Operations queued on all streams of all contexts that have not executed. */
SIMCUDA_API size_t simcudaPendingOperations(void);

/* Lets the devices execute up to `steps` operations, in an order that the seed decides. Returns how many were. */
SIMCUDA_API size_t simcudaAdvance(size_t steps);

/* Forgets everything and starts with fresh devices. Handles and contexts of before become invalid in every thread. No
 * other thread may be inside a CUDA call. */
typedef struct {
  int device_count;
  uint64_t memory_bytes; /* of each device */
  uint64_t seed;         /* of the order in which streams make progress */
  size_t max_pending;    /* operations that a stream holds back before it executes the oldest; 0: it does not lag */
} simcudaConfig;
SIMCUDA_API void simcudaReset(const simcudaConfig* config);

#ifdef __cplusplus
}
#endif
