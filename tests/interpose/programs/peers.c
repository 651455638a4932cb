// Two devices in one process, over the simulated device, which faults on memory that a device may not access and sees
// memory that is reused too early. The first argument says what is done; with "served" as the second the requests must
// not reach the driver.
#include "peers.h"

#include <string.h>

CUcontext contexts[2];
CUstream streams[2];
int served;

void Use(int device) { CHECK(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS); }

CUdeviceptr Allocate(int device) {
  CUdeviceptr block = 0;
  Use(device);
  CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS);
  return block;
}

CUdeviceptr AllocateAsync(int device, size_t bytes) {
  CUdeviceptr block = 0;
  Use(device);
  CHECK(cuMemAllocAsync(&block, bytes, streams[device]) == CUDA_SUCCESS);
  return block;
}

CUresult Touch(int device, CUdeviceptr block, size_t bytes) {
  static uint64_t tag = 0;
  ++tag;
  Use(device);
  CHECK(simcudaWriteTag(streams[device], block, bytes, tag) == CUDA_SUCCESS);
  CHECK(simcudaReadTag(streams[device], block, bytes, tag) == CUDA_SUCCESS);
  return cuStreamSynchronize(streams[device]);
}

void SetPoolAccess(int owner, int peer, CUmemAccess_flags flags) {
  CUmemoryPool pool;
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, flags};
  CHECK(cuDeviceGetDefaultMemPool(&pool, owner) == CUDA_SUCCESS);
  CHECK(cuMemPoolSetAccess(pool, &access, 1) == CUDA_SUCCESS);
}

int Holds(int device, CUdeviceptr block, uint32_t wanted) {
  uint32_t words[2] = {~wanted, ~wanted};
  Use(device);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&words[0], block, 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&words[1], block + kBytes - 4, 4) == CUDA_SUCCESS);
  return words[0] == wanted && words[1] == wanted;
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  served = count > 2 && strcmp(arguments[2], "served") == 0;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  for (int device = 0; device < 2; ++device) {
    CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device) == CUDA_SUCCESS);
    Use(device);
    CHECK(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  }
  const struct {
    const char* name;
    void (*run)(void);
  } parts[] = {{"context", EnableByContext},
               {"pool", EnableByPool},
               {"refused", Refuse},
               {"copies", CopyBetween},
               {"streams", StreamsOfOthers},
               {"freed", FreedOnAnothersStream},
               {"host", CopyWithTheHost},
               {"host_refused", CopyWithTheHost},
               {"host_peers", CopyWithHostAndAccess},
               {"rows", CopyRowsBetween},
               {"rows_refused", CopyRowsBetween},
               {"elsewhere", OnlyElsewhere},
               {"elsewhere_refused", OnlyElsewhere},
               {"one_call", InOneCall},
               {"arrays", CopyArrays},
               {"arrays_refused", CopyArrays},
               {"array_rows", CopyArrayRows}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
    if (strcmp(parts[i].name, arguments[1]) != 0) continue;
    parts[i].run();
    return 0;
  }
  return 2;
}
