// Threads that are cancelled while they ask for memory, again and again: each ends as cancelled, in its own time, and
// the process goes on. What a cancelled thread held is freed by its clean-up handler.
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"

enum { kThreads = 12, kRounds = 40, kBytes = 70000 };

static CUcontext context;
static atomic_int ended;

static void Free(void* block) {
  if (*(CUdeviceptr*)block != 0) CHECK(cuMemFreeAsync(*(CUdeviceptr*)block, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  atomic_fetch_add(&ended, 1);
}

static void* Work(void* unused) {
  CUdeviceptr block = 0;
  pthread_cleanup_push(Free, &block);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (;;) {
    int before = 0;
    pthread_testcancel();
    CHECK(cuMemAllocAsync(&block, kBytes, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    CHECK(before == PTHREAD_CANCEL_ENABLE);  // nobody has changed it
    CHECK(cuMemFreeAsync(block, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    block = 0;
    pthread_setcancelstate(before, NULL);
  }
  pthread_cleanup_pop(1);
  return unused;
}

int main(void) {
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (int round = 0; round < kRounds; ++round) {
    pthread_t threads[kThreads];
    for (int k = 0; k < kThreads; ++k) CHECK(pthread_create(&threads[k], NULL, Work, NULL) == 0);
    const struct timespec nap = {0, 2000000};
    nanosleep(&nap, NULL);
    for (int k = 0; k < kThreads; ++k) CHECK(pthread_cancel(threads[k]) == 0);
    for (int k = 0; k < kThreads; ++k) {
      void* result = NULL;
      CHECK(pthread_join(threads[k], &result) == 0 && result == PTHREAD_CANCELED);
    }
  }
  CHECK(atomic_load(&ended) == kThreads * kRounds);
  return 0;
}
