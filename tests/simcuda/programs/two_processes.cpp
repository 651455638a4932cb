// Two processes on one simulated device: memory by legacy handles and by file descriptors, events, and what each of
// them and NVML say is in use. Prints what is wrong; exit code 1 if anything is.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::printf("%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (false)

constexpr std::size_t kBytes = 8 << 20;
constexpr std::size_t kWords = kBytes / sizeof(unsigned);

struct Message {
  cudaIpcMemHandle_t block, small_block;
  cudaIpcEventHandle_t event;
  int process;
  int descriptor;
};

std::size_t FreeBytes() {
  std::size_t unused = 0, total = 0;
  CHECK(cudaMemGetInfo(&unused, &total) == cudaSuccess);
  return unused;
}

unsigned WordAt(const void* pointer, std::size_t index) {
  unsigned value = 0;
  CHECK(cudaMemcpy(&value, static_cast<const unsigned*>(pointer) + index, sizeof(value), cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  return value;
}

CUmemAllocationProp Exportable() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUdeviceptr MapHere(CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&address, kBytes, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(address, kBytes, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemSetAccess(address, kBytes, &access, 1) == CUDA_SUCCESS);
  return address;
}

void Receive(int from, int to) {
  Message message;
  CHECK(read(from, &message, sizeof(message)) == static_cast<ssize_t>(sizeof(message)));
  const std::size_t unused = FreeBytes();
  void *block = nullptr, *small_block = nullptr;
  CHECK(cudaIpcOpenMemHandle(&block, message.block, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
  CHECK(cudaIpcOpenMemHandle(&small_block, message.small_block, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
  CHECK(FreeBytes() == unused);  // the other process holds it
  cudaEvent_t event = nullptr;
  CHECK(cudaIpcOpenEventHandle(&event, message.event) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(nullptr, event, 0) == cudaSuccess);
  CHECK(WordAt(block, 0) == 0x05050505 && WordAt(block, kWords - 1) == 0x05050505);
  CHECK(WordAt(small_block, 0) == 77);
  CHECK(cudaMemset(block, 6, 4096) == cudaSuccess);
  CHECK(cudaFree(block) == cudaErrorInvalidValue);
  CHECK(cudaIpcCloseMemHandle(block) == cudaSuccess && cudaIpcCloseMemHandle(block) == cudaErrorInvalidValue);

  const std::string path = "/proc/" + std::to_string(message.process) + "/fd/" + std::to_string(message.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR);
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  close(descriptor);
  const CUdeviceptr mapped = MapHere(handle);
  CHECK(WordAt(reinterpret_cast<void*>(mapped), 5) == 3);
  CHECK(cuMemsetD32(mapped, 4, 16) == CUDA_SUCCESS);
  void* own = nullptr;
  CHECK(cudaMalloc(&own, kBytes) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(write(to, &failures, sizeof(failures)) == static_cast<ssize_t>(sizeof(failures)));
  char done = 0;
  CHECK(read(from, &done, 1) == 1);
}

// Processes on the device and what they hold, as NVML has it.
void CheckNvml(std::size_t used_bytes) {
  struct Memory {
    unsigned long long total, unused, used;
  } memory{};
  struct Process {
    unsigned process;
    unsigned long long used;
    unsigned instances[2];
  } processes[8];
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  if (library == nullptr) return;
  const auto find = [&](auto type, const char* name) { return reinterpret_cast<decltype(type)>(dlsym(library, name)); };
  void* device = nullptr;
  unsigned count = 8;
  char text[96];
  CHECK(find(static_cast<int (*)()>(nullptr), "nvmlInit_v2")() == 0);
  CHECK(find(static_cast<int (*)(unsigned, void**)>(nullptr), "nvmlDeviceGetHandleByIndex_v2")(0, &device) == 0);
  CHECK(find(static_cast<int (*)(void*, Memory*)>(nullptr), "nvmlDeviceGetMemoryInfo")(device, &memory) == 0);
  CHECK(memory.used == used_bytes && memory.unused == memory.total - used_bytes);
  CHECK(find(static_cast<int (*)(void*, unsigned*, Process*)>(nullptr), "nvmlDeviceGetComputeRunningProcesses_v3")(
            device, &count, processes) == 0);
  CHECK(count == 2 && processes[0].used + processes[1].used == used_bytes);
  CHECK(find(static_cast<int (*)(void*, char*, unsigned)>(nullptr), "nvmlDeviceGetUUID")(device, text, 96) == 0);
  void* same = nullptr;
  CHECK(find(static_cast<int (*)(const char*, void**)>(nullptr), "nvmlDeviceGetHandleByUUID")(text, &same) == 0);
  CHECK(same == device);
  char bus_id[32];
  CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0) == cudaSuccess);
  CHECK(find(static_cast<int (*)(const char*, void**)>(nullptr), "nvmlDeviceGetHandleByPciBusId_v2")(bus_id, &same) ==
        0);
  CHECK(same == device);
  CHECK(find(static_cast<int (*)(void*, unsigned, unsigned*)>(nullptr), "nvmlDeviceGetNvLinkState")(device, 0,
                                                                                                    &count) == 3);
}

void Send(int from, int to) {
  Message message{};
  const std::size_t unused = FreeBytes();
  void *block = nullptr, *small_block = nullptr;
  CHECK(cudaMalloc(&block, kBytes) == cudaSuccess && cudaMalloc(&small_block, 1000) == cudaSuccess);
  CHECK(cudaMalloc(&small_block, 1000) == cudaSuccess);  // not the first of its page
  CHECK(cudaMemset(block, 5, kBytes) == cudaSuccess);
  const unsigned value = 77;
  CHECK(cudaMemcpy(small_block, &value, sizeof(value), cudaMemcpyHostToDevice) == cudaSuccess);
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess) == cudaSuccess);
  CHECK(cudaEventRecord(event, nullptr) == cudaSuccess);
  CHECK(cudaIpcGetMemHandle(&message.block, static_cast<char*>(block) + 4096) == cudaSuccess);
  CHECK(cudaIpcGetMemHandle(&message.small_block, small_block) == cudaSuccess);
  CHECK(cudaIpcGetEventHandle(&message.event, event) == cudaSuccess);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = Exportable();
  CHECK(cuMemCreate(&handle, kBytes, &properties, 0) == CUDA_SUCCESS);
  const CUdeviceptr mapped = MapHere(handle);
  CHECK(cuMemsetD32(mapped, 3, kWords) == CUDA_SUCCESS);
  CHECK(cuMemExportToShareableHandle(&message.descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);  // nothing else orders the fill before what the other process does
  message.process = getpid();
  void* opened = nullptr;
  CHECK(cudaIpcOpenMemHandle(&opened, message.block, cudaIpcMemLazyEnablePeerAccess) == cudaErrorDeviceUninitialized);
  cudaGetLastError();
  CHECK(write(to, &message, sizeof(message)) == static_cast<ssize_t>(sizeof(message)));
  int others = 1;
  CHECK(read(from, &others, sizeof(others)) == static_cast<ssize_t>(sizeof(others)));
  CHECK(others == 0);
  CHECK(WordAt(block, 0) == 0x06060606 && WordAt(block, 1024) == 0x05050505);
  CHECK(WordAt(reinterpret_cast<void*>(mapped), 5) == 4 && WordAt(reinterpret_cast<void*>(mapped), 16) == 3);
  CHECK(unused - FreeBytes() == 3 * kBytes + (2 << 20));  // with what the other process has allocated
  CheckNvml(3 * kBytes + (2 << 20));
  CHECK(write(to, "", 1) == 1);
}

}  // namespace

int main() {
  const std::string name = "test-" + std::to_string(getpid());
  setenv("SIMCUDA_SHARED", name.c_str(), 1);
  int there[2], back[2];
  CHECK(pipe(there) == 0 && pipe(back) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Receive(there[0], back[1]);
    return failures == 0 ? 0 : 1;
  }
  Send(back[0], there[1]);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  unlink(("/dev/shm/simcuda." + std::to_string(getuid()) + "." + name).c_str());
  return failures == 0 ? 0 : 1;
}
