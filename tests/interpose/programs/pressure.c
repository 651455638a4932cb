// A training loop, and a library in the same process that after a while wants a large workspace from the driver and
// keeps it. What the loop writes it reads back. With a workspace it trains until it has left the device some room at
// its peak for some steps in a row, without mapping anything.
//
// usage: pressure [WORKSPACE_MIB STATISTICS]
//   Without arguments nobody wants anything. STATISTICS is the file that SIGUSR2 has written: the workspace is wanted
//   once it says that there is a choice of plans, which is looked for in time that nobody else wants, however long that
//   takes.
#include <cuda.h>
#include <signal.h>
#include <simcuda/extensions.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { kLayers = 20, kBefore = 60, kAtMost = 3000, kCalm = 10, kAskEvery = 10 };
static const size_t kMiB = (size_t)1 << 20;
static const size_t kDevice = (size_t)1 << 30;  // SIMCUDA_MEMORY

static CUstream stream;
static uint64_t next_tag = 1;

struct Block {
  CUdeviceptr address;
  size_t bytes;
  uint64_t tag;
};

static struct Block Make(size_t bytes) {
  struct Block block = {0, bytes, next_tag++};
  CHECK(cuMemAllocAsync(&block.address, bytes, stream) == CUDA_SUCCESS);
  CHECK(simcudaWriteTag(stream, block.address, bytes, block.tag) == CUDA_SUCCESS);
  return block;
}

static void Free(struct Block block) {
  CHECK(simcudaReadTag(stream, block.address, block.bytes, block.tag) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block.address, stream) == CUDA_SUCCESS);
}

// Pages that are the program's own. Those that it gets are its to keep.
static int Workspace(size_t bytes) {
  CUmemAllocationProp properties;
  memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  return cuMemCreate(&handle, bytes, &properties, 0) == CUDA_SUCCESS;
}

// The second half does not fit into the holes that the first leaves. `workspace` (or 0) is wanted at the peak. Returns
// what the device has left there.
static size_t Step(size_t workspace, int* served) {
  struct Block first[2 * kLayers];
  struct Block second[kLayers];
  for (int i = 0; i < 2 * kLayers; ++i) first[i] = Make(10 * kMiB);
  for (int i = 0; i < kLayers; ++i) Free(first[2 * i + 1]);
  for (int i = 0; i < kLayers; ++i) second[i] = Make(12 * kMiB);
  if (workspace != 0 && !*served) *served = Workspace(workspace);
  const size_t left = kDevice - simcudaPhysicalBytes(0);
  for (int i = 0; i < kLayers; ++i) Free(first[2 * i]);
  for (int i = 0; i < kLayers; ++i) Free(second[i]);
  const struct timespec the_arithmetic = {0, 30 * 1000 * 1000};
  nanosleep(&the_arithmetic, NULL);
  return left;
}

// As far as it has been written.
static int HasChoice(const char* statistics) {
  static char text[1 << 16];
  FILE* file = fopen(statistics, "r");
  if (file == NULL) return 0;
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  const char* choices = strstr(text, "\"choices\":");
  return choices != NULL && atoi(strchr(choices, ':') + 1) > 1;
}

int main(int argc, char** argv) {
  CHECK(argc == 1 || argc == 3);
  const size_t workspace = argc == 3 ? (size_t)atoi(argv[1]) * kMiB : 0;
  CUcontext context;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  struct Block weights[4];
  for (int i = 0; i < 4; ++i) weights[i] = Make(40 * kMiB);
  int served = workspace == 0;
  for (int step = 0; step < kBefore || (workspace != 0 && !HasChoice(argv[2])); ++step) {
    CHECK(step < kAtMost);
    if (workspace != 0 && step % kAskEvery == 0) CHECK(raise(SIGUSR2) == 0);
    Step(0, &served);
  }
  for (int step = 0, calm = 0; workspace != 0 && calm < kCalm; ++step) {
    CHECK(step < kAtMost);
    const uint64_t mapped = simcudaCallCount("cuMemMap");
    const size_t left = Step(workspace, &served);
    calm = served && left >= kDevice / 64 && simcudaCallCount("cuMemMap") == mapped ? calm + 1 : 0;
  }
  for (int i = 0; i < 4; ++i) Free(weights[i]);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS && simcudaCorruptions() == 0);
  return 0;
}
