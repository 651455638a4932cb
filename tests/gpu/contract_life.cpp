// The fidelity contract, second part: contexts that are not current, that end, and none at all; what pointers are said
// to be; pools by the driver's functions, and each served driver function with odd arguments, in its per-thread form
// too; captures whose stream or context ends. Rows as in contract_api.cpp; the driver API only.
#include <cuda.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "contract_api.h"

namespace {

constexpr CUdeviceptr kUntouchedAddress = 0x5A5A5A00;
CUcontext primary = nullptr;
CUstream stream = nullptr;

CUdeviceptr Alloc(std::size_t bytes) {
  CUdeviceptr address = 0;
  return DRIVER(cuMemAlloc)(&address, bytes) == CUDA_SUCCESS ? address : 0;
}

CUdeviceptr AllocAsync(std::size_t bytes) {
  CUdeviceptr address = 0;
  return DRIVER(cuMemAllocAsync)(&address, bytes, stream) == CUDA_SUCCESS ? address : 0;
}

int MakeContext(CUcontext* context) {
  using Create = CUresult(CUcontext*, unsigned int, CUdevice);
  return Driver<Create>("cuCtxCreate_v2")(context, 0u, 0);
}

int Range(CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  return DRIVER(cuMemGetAddressRange)(&base, &bytes, address);
}

void WithoutContext() {
  const CUdeviceptr block = Alloc(kMiB), ordered = AllocAsync(kMiB);
  std::size_t free_bytes = 0, total = 0;
  DRIVER(cuCtxSetCurrent)(nullptr);
  CUdeviceptr address = kUntouchedAddress;
  const int made = DRIVER(cuMemAlloc)(&address, kMiB);
  Row("none_current_alloc", Text(made) + "," + YesNo(address == kUntouchedAddress));
  Row("none_current_alloc_async", Text(DRIVER(cuMemAllocAsync)(&address, kMiB, nullptr)));
  const int by_stream = DRIVER(cuMemAllocAsync)(&address, kMiB, stream);
  Row("none_current_alloc_on_stream",
      Joined({by_stream, by_stream == 0 ? DRIVER(cuMemFreeAsync)(address, stream) : -1}));
  Row("none_current_mem_info", Text(DRIVER(cuMemGetInfo)(&free_bytes, &total)));
  Row("none_current_free_async", Text(DRIVER(cuMemFreeAsync)(ordered, nullptr)));
  const int freed = DRIVER(cuMemFree)(block);
  DRIVER(cuCtxSetCurrent)(primary);
  Row("none_current_free", Joined({freed, freed == 0 ? -1 : DRIVER(cuMemFree)(block)}));
  Row("none_current_freed_later",
      Joined({DRIVER(cuMemFreeAsync)(ordered, stream), DRIVER(cuStreamSynchronize)(stream)}));
  const CUdeviceptr other = Alloc(kMiB);
  int elsewhere = -1;
  std::thread([&] { elsewhere = DRIVER(cuMemFree)(other); }).join();
  Row("free_by_thread_without_context", Joined({elsewhere, elsewhere == 0 ? -1 : DRIVER(cuMemFree)(other)}));
}

// Whether cuMemFree, with the primary context current, has waited for work of another context when it returns. A host
// function is that work: it takes longer than the call.
const char* FreeWaitsFor(CUstream of_other, CUdeviceptr block) {
  static std::atomic<bool> over;
  over = false;
  CUhostFn slow = [](void*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    over = true;
  };
  if (DRIVER(cuLaunchHostFunc)(of_other, slow, static_cast<void*>(nullptr)) != CUDA_SUCCESS) return "not_queued";
  if (DRIVER(cuMemFree)(block) != CUDA_SUCCESS) return "not_freed";
  const bool waited = over;
  DRIVER(cuStreamSynchronize)(of_other);
  return YesNo(waited);
}

// What orders the work of two contexts, and what does not.
void OrderOfContexts() {
  CUcontext second = nullptr;
  CUevent here = nullptr, there = nullptr;
  CUstream of_second = nullptr;
  DRIVER(cuEventCreate)(&here, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  const CUdeviceptr of_primary = Alloc(kMiB);
  MakeContext(&second);
  DRIVER(cuEventCreate)(&there, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  DRIVER(cuStreamCreate)(&of_second, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  const CUdeviceptr of_other = Alloc(kMiB);
  DRIVER(cuCtxSetCurrent)(primary);
  Row("other_context_event",
      Joined({DRIVER(cuEventRecord)(here, of_second), DRIVER(cuEventRecord)(there, stream),
              DRIVER(cuEventRecord)(there, nullptr), DRIVER(cuEventRecord)(there, of_second),
              DRIVER(cuStreamWaitEvent)(stream, there, 0u), DRIVER(cuStreamSynchronize)(stream)}));
  Row("free_waits_for_its_context", FreeWaitsFor(of_second, of_other));
  Row("free_waits_for_other_context", FreeWaitsFor(of_second, of_primary));
  Row("other_context_ends", Joined({DRIVER(cuEventDestroy)(here), DRIVER(cuCtxDestroy)(second),
                                    DRIVER(cuCtxSetCurrent)(primary), DRIVER(cuCtxSynchronize)()}));
}

void OtherContexts() {
  CUcontext second = nullptr;
  const CUdeviceptr of_primary = Alloc(kMiB);
  const int made = MakeContext(&second);
  const CUdeviceptr block = Alloc(kMiB), kept = Alloc(3 * kMiB), ordered_in = Alloc(kMiB);
  CUdeviceptr pooled = 0;
  DRIVER(cuMemAllocAsync)(&pooled, kMiB, nullptr);
  const int freed_there = DRIVER(cuMemFree)(of_primary);
  DRIVER(cuCtxSetCurrent)(primary);
  Row("other_context_frees", Joined({made, freed_there, DRIVER(cuMemFree)(block), Range(kept)}));
  Row("other_context_fill", Joined({DRIVER(cuMemsetD8)(kept, 7, kMiB), DRIVER(cuMemFreeAsync)(ordered_in, stream)}));
  DRIVER(cuCtxSynchronize)();
  std::size_t before = 0, after = 0, total = 0;
  DRIVER(cuMemGetInfo)(&before, &total);
  const int destroyed = DRIVER(cuCtxDestroy)(second);
  Row("destroyed_context_memory",
      Joined({destroyed, Range(kept), DRIVER(cuMemFree)(kept), DRIVER(cuMemFreeAsync)(kept, stream)}));
  Row("destroyed_context_pool_memory", Joined({Range(pooled), DRIVER(cuMemFree)(pooled), DRIVER(cuMemFree)(pooled)}));
  DRIVER(cuMemGetInfo)(&after, &total);
  Row("destroyed_context_gives_back", YesNo(after + 64 * kMiB >= before));
  Row("destroyed_context_work",
      Joined({DRIVER(cuCtxSetCurrent)(primary), Alloc(kMiB) == 0, DRIVER(cuCtxSynchronize)()}));
  // Ended by another thread while it is current here.
  MakeContext(&second);
  const CUdeviceptr inside = Alloc(kMiB);
  std::thread([&] { DRIVER(cuCtxDestroy)(second); }).join();
  CUdeviceptr address = 0;
  const int dead_alloc = DRIVER(cuMemAlloc)(&address, kMiB);
  const int dead_free = DRIVER(cuMemFree)(inside);
  Row("destroyed_current_context", Joined({dead_alloc, dead_free, DRIVER(cuCtxSetCurrent)(primary)}));
  Row("destroyed_stream", Joined({[&] {
                                    CUstream gone = nullptr;
                                    DRIVER(cuStreamCreate)(&gone, 0u);
                                    const CUdeviceptr block_of_gone = AllocAsync(kMiB);
                                    DRIVER(cuStreamDestroy)(gone);
                                    return DRIVER(cuMemFreeAsync)(block_of_gone, nullptr);
                                  }(),
                                  DRIVER(cuCtxSynchronize)()}));
}

// One attribute's status and value, where the value is the same on every machine.
std::string Attribute(CUpointer_attribute attribute, CUdeviceptr address) {
  unsigned long long value = 0;
  const int status = DRIVER(cuPointerGetAttribute)(&value, attribute, address);
  return Text(status) + ":" + std::to_string(status == 0 ? value : 0);
}

void Attributes() {
  CUmemoryPool pool = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
  for (const bool async : {false, true}) {
    const std::string kind = async ? "async" : "malloc";
    const CUdeviceptr block = async ? AllocAsync(3 * kMiB) : Alloc(3 * kMiB);
    DRIVER(cuCtxSynchronize)();
    const struct {
      const char* name;
      CUpointer_attribute attribute;
    } rows[] = {{"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
                {"device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
                {"legacy_ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
                {"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
                {"handle_types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
                {"rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
                {"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
                {"memory_type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE}};
    for (const auto& row : rows)
      Row(("attribute_" + std::string(row.name) + "_" + kind).c_str(), Attribute(row.attribute, block + 4096));
    CUmemoryPool of = nullptr;
    int status = DRIVER(cuPointerGetAttribute)(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block);
    Row(("attribute_pool_" + kind).c_str(), Text(status) + "," +
                                                (of == nullptr ? "none"
                                                 : of == pool  ? "default"
                                                               : "other"));
    CUcontext context = nullptr;
    status = DRIVER(cuPointerGetAttribute)(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block);
    Row(("attribute_context_" + kind).c_str(), Text(status) + "," + YesNo(context == primary));
    void* host = nullptr;
    Row(("attribute_host_" + kind).c_str(),
        Text(DRIVER(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, block)));
    int on = 1;
    Row(("attribute_sync_" + kind).c_str(),
        Text(DRIVER(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block)));
    unsigned int type = 0;
    CUdeviceptr start = 0;
    CUpointer_attribute both[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void* values[] = {&type, &start};
    status = DRIVER(cuPointerGetAttributes)(2u, both, values, block + 512);
    Row(("attributes_together_" + kind).c_str(),
        Joined({status, static_cast<int>(type)}) + "," + YesNo(start == block));
    int handle = -1;
    const CUdeviceptr page = (block + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    status = DRIVER(cuMemGetHandleForAddressRange)(&handle, page, std::size_t{65536},
                                                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0ull);
    Row(("dma_buf_" + kind).c_str(), Text(status) + "," + YesNo(handle >= 0));
    if (handle >= 0) close(handle);
    CUmemGenericAllocationHandle retained = 0;
    status = DRIVER(cuMemRetainAllocationHandle)(&retained, reinterpret_cast<void*>(block));
    Row(("retained_handle_" + kind).c_str(), Text(status));
    if (status == 0) DRIVER(cuMemRelease)(retained);
    Row(("freed_" + kind).c_str(), Text(DRIVER(cuMemFree)(block)));
    CUdeviceptr base = kUntouchedAddress;
    std::size_t bytes = 0;
    status = DRIVER(cuMemGetAddressRange)(&base, &bytes, block);
    Row(("range_after_free_" + kind).c_str(), Text(status));
    Row(("attribute_after_free_" + kind).c_str(), Attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
  }
}

// Blocks of 1000 bytes lie 1024 apart.
void Spacing() {
  CUdeviceptr blocks[6] = {};
  CUdeviceptr nearest = ~CUdeviceptr{0};
  for (CUdeviceptr& block : blocks) block = Alloc(1000);
  for (const CUdeviceptr a : blocks) {
    for (const CUdeviceptr b : blocks) {
      if (a < b && b - a < nearest) nearest = b - a;
    }
  }
  Row("nearest_of_1000", std::to_string(nearest));
  for (const CUdeviceptr block : blocks) DRIVER(cuMemFree)(block);
}

// Each served function with odd arguments: what it answers, and what becomes of the pointer.
template <typename Call>
void Odd(const std::string& name, Call call) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 50}) {
    CUdeviceptr address = kUntouchedAddress;
    const int status = call(&address, bytes);
    Row((name + (bytes == 0 ? "_zero" : "_absurd")).c_str(), Text(status) + "," +
                                                                 (address == kUntouchedAddress ? "untouched"
                                                                  : address == 0               ? "null"
                                                                                               : "set"));
    if (status == 0 && address != 0 && address != kUntouchedAddress) DRIVER(cuMemFree)(address);
  }
  Row((name + "_null").c_str(), Text(call(nullptr, kMiB)));
}

using AllocateAsync = CUresult(CUdeviceptr*, std::size_t, CUstream);
using AllocateFromPool = CUresult(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
using FreeAsync = CUresult(CUdeviceptr, CUstream);

void ServedFunctions() {
  CUmemoryPool pool = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
  std::size_t pitch = 0;
  Odd("cuMemAlloc", [&](CUdeviceptr* to, std::size_t bytes) { return DRIVER(cuMemAlloc)(to, bytes); });
  Odd("cuMemAllocPitch",
      [&](CUdeviceptr* to, std::size_t bytes) { return DRIVER(cuMemAllocPitch)(to, &pitch, bytes >> 20, kMiB, 4u); });
  for (const std::string ending : {"", "_ptsz"}) {
    const auto allocate = Driver<AllocateAsync>(("cuMemAllocAsync" + ending).c_str());
    const auto from_pool = Driver<AllocateFromPool>(("cuMemAllocFromPoolAsync" + ending).c_str());
    const auto free = Driver<FreeAsync>(("cuMemFreeAsync" + ending).c_str());
    Odd("cuMemAllocAsync" + ending, [&](CUdeviceptr* to, std::size_t bytes) { return allocate(to, bytes, nullptr); });
    Odd("cuMemAllocFromPoolAsync" + ending,
        [&](CUdeviceptr* to, std::size_t bytes) { return from_pool(to, bytes, pool, nullptr); });
    CUdeviceptr a = 0, b = 0;
    const int made = allocate(&a, kMiB, nullptr), also = from_pool(&b, kMiB, pool, stream);
    Row(("served" + ending).c_str(), Joined({made, also, free(a, nullptr), free(b, stream), free(a, nullptr),
                                             free(b + 512, stream), free(0, stream), DRIVER(cuCtxSynchronize)()}));
    Row(("from_no_pool" + ending).c_str(), Text(from_pool(&a, kMiB, nullptr, stream)));
  }
  Row("pitch_of_odd_element", Text([&] {
        CUdeviceptr address = 0;
        return DRIVER(cuMemAllocPitch)(&address, &pitch, std::size_t{100}, std::size_t{4}, 3u);
      }()));
}

void OwnPool() {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool own = nullptr, normal = nullptr, now = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool)(&normal, 0);
  const int made = DRIVER(cuMemPoolCreate)(&own, &properties);
  const int set = DRIVER(cuDeviceSetMemPool)(0, own);
  const int asked = DRIVER(cuDeviceGetMemPool)(&now, 0);
  const CUdeviceptr block = AllocAsync(kMiB);
  std::uint64_t used = 0;
  DRIVER(cuMemPoolGetAttribute)(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  CUmemoryPool of = nullptr;
  const int status = DRIVER(cuPointerGetAttribute)(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block);
  Row("own_pool_is_current", Joined({made, set, asked, status}) + "," + YesNo(now == own) + "," + YesNo(of == own) +
                                 "," + std::to_string(used));
  const int freed = DRIVER(cuMemFreeAsync)(block, stream), waited = DRIVER(cuStreamSynchronize)(stream);
  Row("own_pool_ends", Joined({freed, waited, DRIVER(cuDeviceSetMemPool)(0, normal), DRIVER(cuMemPoolDestroy)(own)}));
  Row("default_pool_destroyed", Text(DRIVER(cuMemPoolDestroy)(normal)));
  const CUdeviceptr after = AllocAsync(kMiB);
  Row("after_own_pool",
      Joined({after == 0, DRIVER(cuMemFreeAsync)(after, stream), DRIVER(cuStreamSynchronize)(stream)}));
}

std::string PrimaryState() {
  unsigned flags = 0;
  int active = -1;
  const int once = DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active);
  flags = 0;
  const int twice = DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active);
  return Joined({once, twice, static_cast<int>(flags), active});
}

// Whether the primary context is active, and its flags. Ends it.
void PrimaryStates() {
  Row("primary_state", PrimaryState());
  CUcontext again = nullptr;
  const int retained = DRIVER(cuDevicePrimaryCtxRetain)(&again, 0);
  Row("primary_state_retained_twice", Text(retained) + "," + PrimaryState());
  for (const unsigned flags : {CU_CTX_SCHED_YIELD, CU_CTX_SCHED_AUTO}) {
    const int set = DRIVER(cuDevicePrimaryCtxSetFlags)(0, flags);
    Row(("primary_state_flags_" + std::to_string(flags)).c_str(), Text(set) + "," + PrimaryState());
  }
  const int released = DRIVER(cuDevicePrimaryCtxRelease)(0);
  Row("primary_state_released", Text(released) + "," + PrimaryState());
  const int last = DRIVER(cuDevicePrimaryCtxRelease)(0);
  Row("primary_state_released_for_good", Text(last) + "," + PrimaryState());
  Row("primary_state_null", Text(DRIVER(cuDevicePrimaryCtxGetState)(0, nullptr, nullptr)));
}

// What is captured: one host function. A block was made and freed in the stream's order before.
int BeginCaptureIn(CUstream capturing) {
  CUdeviceptr block = 0;
  if (DRIVER(cuMemAllocAsync)(&block, kMiB, capturing) == CUDA_SUCCESS) DRIVER(cuMemFreeAsync)(block, capturing);
  const int begun = DRIVER(cuStreamBeginCapture)(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUhostFn nothing = [](void*) {};
  DRIVER(cuLaunchHostFunc)(capturing, nothing, static_cast<void*>(nullptr));
  return begun;
}

int EndCaptureIn(CUstream capturing) {
  CUgraph graph = nullptr;
  const int ended = DRIVER(cuStreamEndCapture)(capturing, &graph);
  if (ended == 0 && graph != nullptr) DRIVER(cuGraphDestroy)(graph);
  return ended;
}

// And then, what a call answers that is forbidden while this thread captures, and whether another capture can follow.
std::string AndAfter(const std::string& capture) {
  CUdeviceptr address = 0;
  const int made = DRIVER(cuMemAlloc)(&address, kMiB);
  if (made == 0) DRIVER(cuMemFree)(address);
  const int waited = DRIVER(cuCtxSynchronize)();
  const int begun = BeginCaptureIn(stream);
  return capture + "," + Joined({made, waited, begun, EndCaptureIn(stream), DRIVER(cuCtxSynchronize)()});
}

std::string CaptureWhoseStreamEnds() {
  CUstream ends = nullptr;
  DRIVER(cuStreamCreate)(&ends, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  const int begun = BeginCaptureIn(ends);
  const int destroyed = DRIVER(cuStreamDestroy)(ends);
  const int ended = destroyed == 0 ? -1 : EndCaptureIn(ends);
  return AndAfter(Joined({begun, destroyed, ended}));
}

// A stream that takes part in a capture which began in another.
std::string CaptureWhoseSideStreamEnds() {
  CUstream ends = nullptr;
  CUevent event = nullptr;
  DRIVER(cuStreamCreate)(&ends, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  DRIVER(cuEventCreate)(&event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  const int begun = BeginCaptureIn(stream);
  const int recorded = DRIVER(cuEventRecord)(event, stream);
  const int joined = DRIVER(cuStreamWaitEvent)(ends, event, 0u);
  const int destroyed = DRIVER(cuStreamDestroy)(ends);
  return AndAfter(Joined({begun, recorded, joined, destroyed, EndCaptureIn(stream)}));
}

std::string CaptureWhoseContextEnds() {
  CUcontext ends = nullptr;
  CUstream in_it = nullptr;
  MakeContext(&ends);
  DRIVER(cuStreamCreate)(&in_it, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  const int begun = BeginCaptureIn(in_it);
  const int destroyed = DRIVER(cuCtxDestroy)(ends);
  const int ended = destroyed == 0 ? -1 : EndCaptureIn(in_it);
  return AndAfter(Joined({begun, destroyed, ended, DRIVER(cuCtxSetCurrent)(primary)}));
}

// What becomes of a capture whose stream is no more is not written down, so that anything may: each is tried in a
// process of its own, by this program with the row for its argument.
struct Ending {
  const char* row;
  std::string (*answer)();
};
constexpr Ending kEndings[] = {{"capture_ends_with_stream", CaptureWhoseStreamEnds},
                               {"capture_side_stream_ends", CaptureWhoseSideStreamEnds},
                               {"capture_ends_with_context", CaptureWhoseContextEnds}};
constexpr unsigned kMostSeconds = 20;

void CapturesThatEnd() {
  for (const Ending& ending : kEndings) {
    std::string self = "/proc/self/exe", row = ending.row;
    char* const arguments[] = {self.data(), row.data(), nullptr};
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child) {
      Row(ending.row, "not_tried");
    } else if (WIFSIGNALED(status)) {
      Row(ending.row, "signal:" + Text(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0) {
      Row(ending.row, "exit:" + Text(WEXITSTATUS(status)));
    }
  }
}

int Try(const std::string& row) {
  alarm(kMostSeconds);
  for (const Ending& ending : kEndings)
    if (row == ending.row) return Row(ending.row, ending.answer()), 0;
  return 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (DRIVER(cuInit)(0) != CUDA_SUCCESS || DRIVER(cuDevicePrimaryCtxRetain)(&primary, 0) != CUDA_SUCCESS) {
    std::fprintf(stderr, "no device\n");
    return 77;
  }
  DRIVER(cuCtxSetCurrent)(primary);
  DRIVER(cuStreamCreate)(&stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  if (argument_count > 1) return Try(arguments[1]);
  for (void (*part)() : {WithoutContext, OrderOfContexts, OtherContexts, Attributes, Spacing, ServedFunctions, OwnPool,
                         CapturesThatEnd, PrimaryStates}) {
    part();
  }
  Row("end_of_life", "reached");
  return 0;
}
