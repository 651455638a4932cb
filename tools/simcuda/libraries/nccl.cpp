// NCCL: communicators of several processes on this machine, or of one process that stands for a rank of a world of any
// size (STALLOC_SIMULATED_WORLD_SIZE > 1). NCCL's own device memory is not simulated.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>

#include "nccl_communicator.h"
#include "nccl_types.h"

namespace stalloc::simcuda::libraries {
namespace {

bool OneOfAWorld() {
  const char* text = std::getenv("STALLOC_SIMULATED_WORLD_SIZE");
  return text != nullptr && std::atoi(text) > 1;
}

// Communicators are not deleted while work for them may be queued: they go when the process does.
Result Create(void** communicator, std::string token, int rank, int size) {
  if (rank < 0 || rank >= size) return kInvalidArgument;
  try {
    *communicator = new Communicator(std::move(token), rank, size, OneOfAWorld());
    return kSuccess;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "stalloc: %s\n", failure.what());
    return kSystemError;
  }
}

std::string TokenOf(const UniqueId& id) { return std::string(id.text, strnlen(id.text, 32)); }

Communicator& Of(void* communicator) { return *static_cast<Communicator*>(communicator); }
CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

#define NCCL extern "C" __attribute__((visibility("default")))

NCCL Result ncclGetVersion(int* version) {
  const char* text = std::getenv("SIMCUDA_NCCL_VERSION");
  const int number = text == nullptr ? 0 : std::atoi(text);
  *version = number > 0 ? number : 22700;
  return kSuccess;
}

NCCL Result ncclGetUniqueId(UniqueId* id) {
  *id = {};
  std::random_device random;
  std::snprintf(id->text, sizeof id->text, "%08x%08x", random(), random());
  return kSuccess;
}

NCCL Result ncclCommInitRank(void** communicator, int size, UniqueId id, int rank) {
  return Create(communicator, TokenOf(id), rank, size);
}
NCCL Result ncclCommInitRankConfig(void** communicator, int size, UniqueId id, int rank, void*) {
  return Create(communicator, TokenOf(id), rank, size);
}
NCCL Result ncclCommInitRankScalable(void** communicator, int size, int rank, int, UniqueId* ids, void*) {
  return Create(communicator, TokenOf(ids[0]), rank, size);
}

// Several devices of one process.
NCCL Result ncclCommInitAll(void** communicators, int count, const int*) {
  UniqueId id;
  ncclGetUniqueId(&id);
  for (int rank = 0; rank < count; ++rank) {
    if (const Result result = Create(&communicators[rank], TokenOf(id), rank, count)) return result;
  }
  return kSuccess;
}

NCCL Result ncclCommSplit(void* communicator, int color, int key, void** split, void*) {
  *split = Of(communicator).Split(color, key).release();
  return kSuccess;
}
NCCL Result ncclCommShrink(void* communicator, const int* excluded, int count, void** shrunk, void*, int) {
  int color = 0;
  for (int i = 0; i < count; ++i) color = excluded[i] == Of(communicator).rank() ? -1 : color;
  return ncclCommSplit(communicator, color, Of(communicator).rank(), shrunk, nullptr);
}

NCCL Result ncclCommFinalize(void*) { return kSuccess; }
NCCL Result ncclCommDestroy(void*) { return kSuccess; }
NCCL Result ncclCommAbort(void*) { return kSuccess; }
NCCL Result ncclCommRevoke(void*, int) { return kSuccess; }
NCCL Result ncclCommGetAsyncError(void*, Result* result) {
  *result = kSuccess;
  return kSuccess;
}
NCCL Result ncclCommCount(void* communicator, int* count) {
  *count = Of(communicator).size();
  return kSuccess;
}
NCCL Result ncclCommUserRank(void* communicator, int* rank) {
  *rank = Of(communicator).rank();
  return kSuccess;
}
NCCL Result ncclCommCuDevice(void*, int* device) {
  return cuCtxGetDevice(device) == CUDA_SUCCESS ? kSuccess : kInvalidUsage;
}
NCCL const char* ncclGetErrorString(Result result) {
  return result == kSuccess ? "no error" : "an error of the stand-in for NCCL";
}
NCCL const char* ncclGetLastError(void*) { return ""; }
NCCL Result ncclGroupStart() { return kSuccess; }
NCCL Result ncclGroupEnd() { return kSuccess; }
NCCL Result ncclGroupSimulateEnd(void*) { return kSuccess; }

NCCL Result ncclAllGather(const void* send, void* receive, std::size_t count, int type, void* communicator,
                          CUstream stream) {
  Of(communicator).AllGather(Address(send), Address(receive), count, type, stream);
  return kSuccess;
}
NCCL Result ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int reduction,
                          void* communicator, CUstream stream) {
  Of(communicator).AllReduce(Address(send), Address(receive), count, type, reduction, stream);
  return kSuccess;
}
NCCL Result ncclReduce(const void* send, void* receive, std::size_t count, int type, int reduction, int root,
                       void* communicator, CUstream stream) {
  Of(communicator).Reduce(Address(send), Address(receive), count, type, reduction, root, stream);
  return kSuccess;
}
NCCL Result ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int reduction,
                              void* communicator, CUstream stream) {
  Of(communicator).ReduceScatter(Address(send), Address(receive), count, type, reduction, stream);
  return kSuccess;
}
NCCL Result ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root, void* communicator,
                          CUstream stream) {
  Of(communicator).Broadcast(Address(send), Address(receive), count, type, root, stream);
  return kSuccess;
}
NCCL Result ncclBcast(void* buffer, std::size_t count, int type, int root, void* communicator, CUstream stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
NCCL Result ncclAlltoAll(const void* send, void* receive, std::size_t count, int type, void* communicator,
                         CUstream stream) {
  Of(communicator).AllToAll(Address(send), Address(receive), count, type, stream);
  return kSuccess;
}
NCCL Result ncclSend(const void* send, std::size_t count, int type, int peer, void* communicator, CUstream stream) {
  Of(communicator).Send(Address(send), count, type, peer, stream);
  return kSuccess;
}
NCCL Result ncclRecv(void* receive, std::size_t count, int type, int peer, void* communicator, CUstream stream) {
  Of(communicator).Receive(Address(receive), count, type, peer, stream);
  return kSuccess;
}

NCCL Result ncclRedOpCreatePreMulSum(int* reduction, void*, int, int, void*) {
  *reduction = kSum;
  return kSuccess;
}
NCCL Result ncclRedOpDestroy(int, void*) { return kSuccess; }

NCCL Result ncclCommRegister(void*, void* buffer, std::size_t, void** handle) {
  *handle = buffer;
  return kSuccess;
}
NCCL Result ncclCommDeregister(void*, void*) { return kSuccess; }
NCCL Result ncclCommWindowRegister(void*, void* buffer, std::size_t, void** window, int) {
  *window = buffer;
  return kSuccess;
}
NCCL Result ncclCommWindowDeregister(void*, void*) { return kSuccess; }
NCCL Result ncclDevCommCreate(void*, const void*, void*) { return kInvalidUsage; }
NCCL Result ncclDevCommDestroy(void*, const void*) { return kSuccess; }

NCCL Result ncclMemAlloc(void** pointer, std::size_t size_bytes) {
  CUdeviceptr address = 0;
  const CUresult result = cuMemAlloc(&address, size_bytes);
  *pointer = reinterpret_cast<void*>(address);
  return result == CUDA_SUCCESS ? kSuccess : kSystemError;
}
NCCL Result ncclMemFree(void* pointer) {
  return cuMemFree(Address(pointer)) == CUDA_SUCCESS ? kSuccess : kInvalidArgument;
}

}  // namespace stalloc::simcuda::libraries
