// The driver's own memory functions: taken to the allocator first, to the real function if it passes.
//
// Any thread. A call from the runtime library, whose wrapper has been asked already, is not offered again; frees are
// routed by who owns the address, whichever way they come. What the allocator passes gets the driver's own answer,
// after one more try if that is "out of memory".
#include <atomic>
#include <limits>

#include "driver_call.h"
#include "pools.h"
#include "process_life.h"
#include "real_symbols.h"
#include "reentry.h"
#include "relaxed_capture.h"
#include "retry.h"
#include "runtime/service/service.h"
#include "stream_order.h"

namespace stalloc::interpose {
namespace {

// The real functions judge everything odd: null pointers, zero sizes.
bool Offer(CUdeviceptr* address, std::size_t size_bytes) noexcept {
  return address != nullptr && size_bytes != 0 && !Nested() && Serving();
}

// `serve` says whether the allocator did it; `forward` calls the real function.
template <Entry kEntry, typename Serve, typename RealCall>
CUresult Allocate(CUdeviceptr* address, std::size_t size_bytes, Serve serve, RealCall forward) noexcept {
  CUresult result = Refusal();
  if (result != CUDA_SUCCESS || (Offer(address, size_bytes) && serve(&result) == runtime::Answer::kServed)) {
    if (result != CUDA_SUCCESS && address != nullptr) *address = 0;  // as the driver leaves it
    return result;
  }
  result = WithRetry({kEntry, size_bytes}, forward);
  if (result == CUDA_SUCCESS && !Nested() && ServingAlready()) runtime::NotePassedThrough(size_bytes);
  return result;
}

template <Entry kEntry, Streams kStreams>
CUresult AllocateAsync(CUdeviceptr* address, std::size_t size_bytes, CUstream stream) noexcept {
  return Allocate<kEntry>(
      address, size_bytes,
      [&](CUresult* result) {
        return TakesFromDefaultPool(Order(stream, kStreams))
                   ? runtime::Allocate(address, size_bytes, Order(stream, kStreams), result)
                   : runtime::Answer::kPassThrough;
      },
      [&] { return Forward<kEntry>(address, size_bytes, stream); });
}

template <Entry kEntry, Streams kStreams>
CUresult AllocateFromPool(CUdeviceptr* address, std::size_t size_bytes, CUmemoryPool pool, CUstream stream) noexcept {
  return Allocate<kEntry>(
      address, size_bytes,
      [&](CUresult* result) {
        return IsDefaultPoolOf(pool, Order(stream, kStreams))
                   ? runtime::Allocate(address, size_bytes, Order(stream, kStreams), result)
                   : runtime::Answer::kPassThrough;
      },
      [&] { return Forward<kEntry>(address, size_bytes, pool, stream); });
}

template <typename RealCall>
CUresult Free(CUdeviceptr address, runtime::StreamOrder order, RealCall forward) noexcept {
  CUresult result = CUDA_SUCCESS;
  if (address != 0 && ServingAlready() && runtime::Free(address, order, &result) == runtime::Answer::kServed) {
    return result;
  }
  result = forward();
  if (address != 0 && result == CUDA_SUCCESS && !Nested() && ServingAlready()) runtime::NotePassedThrough(0);
  return result;
}

// The multiple to which the driver rounds the width of pitched memory: its answer for a width of one byte. Asked once a
// device, with a one-byte allocation. 0: it cannot be asked.
std::size_t PitchGranularity(int device) noexcept {
  constexpr int kMaxDevices = 64;
  static constinit std::atomic<std::size_t> known[kMaxDevices] = {};
  if (device < 0 || device >= kMaxDevices) return 0;
  std::size_t pitch = known[device].load(std::memory_order_relaxed);
  if (pitch != 0) return pitch;
  const RelaxedCapture relaxed;
  CUdeviceptr sample = 0;
  if (Forward<Entry::k_cuMemAllocPitch_v2>(&sample, &pitch, std::size_t{1}, std::size_t{1}, 4u) == CUDA_SUCCESS) {
    Forward<Entry::k_cuMemFree_v2>(sample);
    known[device].store(pitch, std::memory_order_relaxed);
  } else {
    pitch = 0;
  }
  return pitch;
}

runtime::Answer ServePitched(CUdeviceptr* address, std::size_t* pitch_out, std::size_t width_bytes, std::size_t height,
                             CUresult* result) noexcept {
  const std::size_t granularity = PitchGranularity(CurrentDevice());
  // No device takes a wider row: its limit, CU_DEVICE_ATTRIBUTE_MAX_PITCH, is an int.
  if (granularity == 0 || width_bytes > std::numeric_limits<int>::max()) return runtime::Answer::kPassThrough;
  const std::size_t pitch = (width_bytes + granularity - 1) / granularity * granularity;
  if (pitch > std::numeric_limits<std::size_t>::max() / height) return runtime::Answer::kPassThrough;
  const runtime::Answer answer = runtime::Allocate(address, pitch * height, std::nullopt, result);
  if (answer == runtime::Answer::kServed && *result == CUDA_SUCCESS) *pitch_out = pitch;
  return answer;
}

}  // namespace
}  // namespace stalloc::interpose

using namespace stalloc::interpose;

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size_bytes) {
  return Allocate<Entry::k_cuMemAlloc_v2>(
      address, size_bytes,
      [&](CUresult* result) { return stalloc::runtime::Allocate(address, size_bytes, std::nullopt, result); },
      [&] { return Forward<Entry::k_cuMemAlloc_v2>(address, size_bytes); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width_bytes, std::size_t height,
                            unsigned int element_bytes) {
  const bool usual =
      pitch != nullptr && height != 0 && (element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
  return Allocate<Entry::k_cuMemAllocPitch_v2>(
      address, usual && width_bytes <= std::numeric_limits<std::size_t>::max() / height ? width_bytes * height : 0,
      [&](CUresult* result) { return ServePitched(address, pitch, width_bytes, height, result); },
      [&] { return Forward<Entry::k_cuMemAllocPitch_v2>(address, pitch, width_bytes, height, element_bytes); });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size_bytes, CUstream stream) {
  return AllocateAsync<Entry::k_cuMemAllocAsync, Streams::kLegacy>(address, size_bytes, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, std::size_t size_bytes, CUstream stream) {
  return AllocateAsync<Entry::k_cuMemAllocAsync_ptsz, Streams::kPerThread>(address, size_bytes, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t size_bytes, CUmemoryPool pool, CUstream stream) {
  return AllocateFromPool<Entry::k_cuMemAllocFromPoolAsync, Streams::kLegacy>(address, size_bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, std::size_t size_bytes, CUmemoryPool pool,
                                      CUstream stream) {
  return AllocateFromPool<Entry::k_cuMemAllocFromPoolAsync_ptsz, Streams::kPerThread>(address, size_bytes, pool,
                                                                                      stream);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return Free(address, std::nullopt, [&] { return Forward<Entry::k_cuMemFree_v2>(address); });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return Free(address, Order(stream, Streams::kLegacy),
              [&] { return Forward<Entry::k_cuMemFreeAsync>(address, stream); });
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return Free(address, Order(stream, Streams::kPerThread),
              [&] { return Forward<Entry::k_cuMemFreeAsync_ptsz>(address, stream); });
}
