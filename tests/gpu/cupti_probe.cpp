// A profiler in small: loaded by the driver (CUDA_INJECTION64_PATH), it has CUPTI record kernels and copies, and says
// at the end how many there were.
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
std::atomic<long> kernels{0}, copies{0}, dropped{0};

void CUPTIAPI BufferRequested(std::uint8_t** buffer, std::size_t* size_bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *size_bytes = kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI BufferCompleted(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t /*size_bytes*/,
                              std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++kernels;
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) ++copies;
  }
  std::size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += static_cast<long>(lost);
  std::free(buffer);
}

void Report() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::fprintf(stderr, "cupti: %ld kernels, %ld copies, %ld dropped\n", kernels.load(), copies.load(), dropped.load());
}

}  // namespace

// The driver calls this in cuInit.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  CUptiResult result = cuptiActivityRegisterCallbacks(&BufferRequested, &BufferCompleted);
  if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  if (result != CUPTI_SUCCESS) {
    std::fprintf(stderr, "cupti: error %d\n", result);
    return 1;
  }
  std::atexit(&Report);
  return 1;
}
