// The runtime library's memory functions that run once a tensor: the allocator first, before the library's own
// bookkeeping; the real function if it passes or has anything but success to say, because the real one sets the last
// error.
//
// Any thread. While the real function runs, the driver wrappers beneath it are told by a NestedScope that the request
// has been offered and will be counted here.
#include <atomic>
#include <optional>

#include "driver_call.h"
#include "pools.h"
#include "primary_contexts.h"
#include "process_life.h"
#include "real_symbols.h"
#include "reentry.h"
#include "relaxed_capture.h"
#include "runtime/service/program_pools.h"
#include "runtime/service/service.h"
#include "runtime_library.h"
#include "stream_order.h"

namespace stalloc::interpose {
namespace {

// The library loads the driver and makes a thread's context in its first call of any kind that needs one; this call
// does nothing else.
void LetLibraryInitialise() noexcept {
  const NestedScope nested;
  const RelaxedCapture relaxed;
  Forward<Entry::k_cudaFree>(static_cast<void*>(nullptr));
}

bool HasContext() noexcept {
  CUcontext context = nullptr;
  return STALLOC_CALL_DRIVER(cuCtxGetCurrent, &context) == CUDA_SUCCESS && context != nullptr;
}

// True once in each thread after a primary context has ended.
bool ContextHasEnded() noexcept {
  static constinit thread_local std::uint32_t seen __attribute__((tls_model("initial-exec"))) = 0;
  const std::uint32_t ended = primary_contexts_ended.load(std::memory_order_acquire);
  if (seen == ended) [[likely]]
    return false;
  seen = ended;
  return true;
}

// Asks the allocator by `serve(address, result)`. nullopt: it has passed, or was not to be asked.
template <typename Serve>
std::optional<CUresult> Offer(void** pointer, std::size_t size_bytes, Serve serve) noexcept {
  if (pointer == nullptr || size_bytes == 0) return std::nullopt;
  if (!ServingAlready()) [[unlikely]] {
    if (!Enabled()) return std::nullopt;
    if (ServingUndecided()) LetLibraryInitialise();
    if (!Serving()) return std::nullopt;
  }
  if (ContextHasEnded()) LetLibraryInitialise();
  CUdeviceptr address = 0;
  CUresult result = CUDA_SUCCESS;
  runtime::Answer answer = serve(&address, &result);
  if (answer == runtime::Answer::kPassThrough && !HasContext()) {
    // The first CUDA call of this thread.
    LetLibraryInitialise();
    answer = serve(&address, &result);
  }
  if (answer == runtime::Answer::kPassThrough) return std::nullopt;
  if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return result;
}

template <typename Serve, typename RealCall>
cudaError_t Allocate(void** pointer, std::size_t size_bytes, Serve serve, RealCall forward) noexcept {
  // A library whose context may not be the current one yet is let run; the driver wrappers serve it.
  if (Nested() || !SetDeviceTakesEffectAtOnce()) return forward();
  const std::optional<CUresult> answer = Offer(pointer, size_bytes, serve);
  if (answer == CUDA_SUCCESS) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  {
    const NestedScope nested(answer.value_or(CUDA_SUCCESS));
    error = forward();
  }
  if (error == cudaSuccess && size_bytes != 0 && ServingAlready()) runtime::NotePassedThrough(size_bytes);
  return error;
}

template <typename RealCall>
cudaError_t Free(void* pointer, runtime::StreamOrder order, RealCall forward) noexcept {
  CUresult result = CUDA_SUCCESS;
  bool owned = false;
  // First: a pool's own allocator may have its segments from here.
  if (runtime::any_pool.load(std::memory_order_relaxed) && order) [[unlikely]]
    if (runtime::FreeInPool(reinterpret_cast<CUdeviceptr>(pointer), *order)) return cudaSuccess;
  if (pointer != nullptr && ServingAlready()) {
    owned = runtime::Free(reinterpret_cast<CUdeviceptr>(pointer), order, &result) == runtime::Answer::kServed;
    if (owned && result == CUDA_SUCCESS) return cudaSuccess;
  }
  // Where the address is the allocator's and not live, the driver wrapper beneath gives the same answer once more, and
  // the library makes an error of it.
  cudaError_t error = cudaSuccess;
  {
    const NestedScope nested;
    error = forward();
  }
  if (pointer != nullptr && error == cudaSuccess && !owned && !Nested() && ServingAlready()) {
    runtime::NotePassedThrough(0);
  }
  return error;
}

template <Entry kEntry, Streams kStreams>
cudaError_t AllocateAsync(void** pointer, std::size_t size_bytes, cudaStream_t stream) noexcept {
  // What the pool answers has the same number as an error of the runtime library.
  if (runtime::pool_in_use != nullptr && pointer != nullptr && size_bytes != 0 && Serving()) [[unlikely]] {
    if (!HasContext()) LetLibraryInitialise();
    return static_cast<cudaError_t>(
        runtime::AllocateInPool(reinterpret_cast<CUdeviceptr*>(pointer), size_bytes, Order(stream, kStreams)));
  }
  return Allocate(
      pointer, size_bytes,
      [&](CUdeviceptr* address, CUresult* result) {
        return TakesFromDefaultPool(Order(stream, kStreams))
                   ? runtime::Allocate(address, size_bytes, Order(stream, kStreams), result)
                   : runtime::Answer::kPassThrough;
      },
      [&] { return Forward<kEntry>(pointer, size_bytes, stream); });
}

template <Entry kEntry, Streams kStreams>
cudaError_t AllocateFromPool(void** pointer, std::size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream) noexcept {
  return Allocate(
      pointer, size_bytes,
      [&](CUdeviceptr* address, CUresult* result) {
        return IsDefaultPoolOf(pool, Order(stream, kStreams))
                   ? runtime::Allocate(address, size_bytes, Order(stream, kStreams), result)
                   : runtime::Answer::kPassThrough;
      },
      [&] { return Forward<kEntry>(pointer, size_bytes, pool, stream); });
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

cudaError_t cudaMalloc(void** pointer, std::size_t size_bytes) {
  return Allocate(
      pointer, size_bytes,
      [&](CUdeviceptr* address, CUresult* result) {
        return stalloc::runtime::Allocate(address, size_bytes, std::nullopt, result);
      },
      [&] { return Forward<Entry::k_cudaMalloc>(pointer, size_bytes); });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t size_bytes, cudaStream_t stream) {
  return AllocateAsync<Entry::k_cudaMallocAsync, Streams::kLegacy>(pointer, size_bytes, stream);
}

cudaError_t cudaMallocAsync_ptsz(void** pointer, std::size_t size_bytes, cudaStream_t stream) {
  return AllocateAsync<Entry::k_cudaMallocAsync_ptsz, Streams::kPerThread>(pointer, size_bytes, stream);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return AllocateFromPool<Entry::k_cudaMallocFromPoolAsync, Streams::kLegacy>(pointer, size_bytes, pool, stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, std::size_t size_bytes, cudaMemPool_t pool,
                                         cudaStream_t stream) {
  return AllocateFromPool<Entry::k_cudaMallocFromPoolAsync_ptsz, Streams::kPerThread>(pointer, size_bytes, pool,
                                                                                      stream);
}

cudaError_t cudaFree(void* pointer) {
  return Free(pointer, std::nullopt, [&] { return Forward<Entry::k_cudaFree>(pointer); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return Free(pointer, Order(stream, Streams::kLegacy),
              [&] { return Forward<Entry::k_cudaFreeAsync>(pointer, stream); });
}

cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return Free(pointer, Order(stream, Streams::kPerThread),
              [&] { return Forward<Entry::k_cudaFreeAsync_ptsz>(pointer, stream); });
}
