// libnvidia-ml.so.1: what pynvml (nvidia-ml-py) and PyTorch ask for, of the simulated devices. What no simulation has,
// load, heat and power, is answered as by a device that does nothing; links between devices are not supported, as on
// machines without NVLink.
#include <strings.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "devices.h"

namespace stalloc::simcuda::nvml {
namespace {

Result Copy(const std::string& text, char* to, unsigned capacity) {
  if (to == nullptr) return kInvalidArgument;
  if (text.size() + 1 > capacity) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

// body(device's number).
template <typename Body>
Result WithDevice(DeviceHandle handle, Body&& body) {
  if (LoadedDriver() == nullptr) return kUninitialized;
  const int number = NumberOf(handle);
  return number < 0 ? kInvalidArgument : body(number);
}

template <typename Number>
Result Answer(DeviceHandle handle, Number* value, Number answer) {
  return WithDevice(handle, [&](int) {
    if (value == nullptr) return kInvalidArgument;
    *value = answer;
    return kSuccess;
  });
}

template <typename Number>
Result AnswerAttribute(DeviceHandle handle, Number* value, CUdevice_attribute attribute, int divisor = 1) {
  return WithDevice(handle, [&](int number) {
    if (value == nullptr) return kInvalidArgument;
    *value = static_cast<Number>(AttributeOf(number, attribute) / divisor);
    return kSuccess;
  });
}

Result NotSupported(DeviceHandle handle) {
  return WithDevice(handle, [](int) { return kNotSupported; });
}

// The one whose text equals `wanted`.
template <typename TextOf>
Result Find(const char* wanted, DeviceHandle* handle, TextOf text_of) {
  if (LoadedDriver() == nullptr) return kUninitialized;
  if (wanted == nullptr || handle == nullptr) return kInvalidArgument;
  for (int number = 0; number < DeviceCount(); ++number) {
    if (strcasecmp(text_of(number).c_str(), wanted) != 0) continue;
    *handle = HandleOf(number);
    return kSuccess;
  }
  return kNotFound;
}

Memory MemoryOf(int number) {
  std::size_t total = 0;
  LoadedDriver()->total(&total, number);
  const std::uint64_t used = LoadedDriver()->used(number);
  return {total, total - used, used};
}

// The versions of the struct begin alike; `next` makes room for one more in the caller's array.
template <typename Info>
Result Processes(DeviceHandle handle, unsigned* count, Info* infos) {
  return WithDevice(handle, [&](int number) {
    constexpr std::size_t kMost = 256;
    int processes[kMost];
    std::uint64_t bytes[kMost];
    if (count == nullptr) return kInvalidArgument;
    const auto known = static_cast<unsigned>(LoadedDriver()->processes(number, processes, bytes, kMost));
    const unsigned capacity = *count;
    *count = known;
    if (known > capacity || (infos == nullptr && known != 0)) return kInsufficientSize;
    for (unsigned i = 0; i < known; ++i) {
      infos[i] = Info{};
      infos[i].process = static_cast<unsigned>(processes[i]);
      infos[i].used_bytes = bytes[i];
    }
    return kSuccess;
  });
}

Result NoProcesses(DeviceHandle handle, unsigned* count) { return Answer(handle, count, 0u); }

Result ByIndex(unsigned index, DeviceHandle* handle) {
  if (LoadedDriver() == nullptr) return kUninitialized;
  if (handle == nullptr || index >= static_cast<unsigned>(DeviceCount())) return kInvalidArgument;
  *handle = HandleOf(static_cast<int>(index));
  return kSuccess;
}

// With a domain of eight digits or of four.
Result ByBusId(const char* bus_id, DeviceHandle* handle) {
  const bool is_short = bus_id != nullptr && std::strlen(bus_id) == std::strlen("0000:00:00.0");
  return Find(bus_id, handle, [&](int number) { return BusIdOf(number).substr(is_short ? 4 : 0); });
}

Result WritePciInfo(DeviceHandle handle, PciInfo* info) {
  return WithDevice(handle, [&](int number) {
    if (info == nullptr) return kInvalidArgument;
    std::memset(info, 0, sizeof(*info));
    const std::string bus_id = BusIdOf(number);
    std::snprintf(info->bus_id_legacy, sizeof(info->bus_id_legacy), "%s", bus_id.c_str() + 4);
    std::snprintf(info->bus_id, sizeof(info->bus_id), "%s", bus_id.c_str());
    info->bus = static_cast<unsigned>(AttributeOf(number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
    info->device = static_cast<unsigned>(AttributeOf(number, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    return kSuccess;
  });
}

Result CudaVersion(int* version) {
  if (LoadedDriver() == nullptr) return kUninitialized;
  if (version == nullptr) return kInvalidArgument;
  return LoadedDriver()->version(version) == CUDA_SUCCESS ? kSuccess : kUnknown;
}

// NVML's numbers of architectures; 8.9 is Ada's.
unsigned ArchitectureOf(int major, int minor) {
  switch (major) {
    case 7:
      return minor == 5 ? 6 : 5;
    case 8:
      return minor == 9 ? 8 : 7;
    case 9:
      return 9;
    default:
      return 10;
  }
}

unsigned CoresOf(int major, int minor) { return major == 7 || (major == 8 && minor == 0) ? 64 : 128; }

constexpr unsigned kIdleTemperature = 35;
constexpr unsigned kIdlePowerMw = 70'000;
constexpr unsigned kPowerLimitMw = 700'000;

}  // namespace

NVML_EXPORT Result nvmlInit() { return Initialise(); }
NVML_EXPORT Result nvmlInit_v2() { return Initialise(); }
NVML_EXPORT Result nvmlInitWithFlags(unsigned) { return Initialise(); }
NVML_EXPORT Result nvmlShutdown() { return Shutdown(); }

NVML_EXPORT const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    default:
      return "Unknown Error";
  }
}

// That of the driver whose answers the simulation was measured against.
NVML_EXPORT Result nvmlSystemGetDriverVersion(char* text, unsigned capacity) {
  return LoadedDriver() == nullptr ? kUninitialized : Copy("580.159.04", text, capacity);
}

NVML_EXPORT Result nvmlSystemGetNVMLVersion(char* text, unsigned capacity) {
  return LoadedDriver() == nullptr ? kUninitialized : Copy("13.580.159.04", text, capacity);
}

NVML_EXPORT Result nvmlSystemGetCudaDriverVersion(int* version) { return CudaVersion(version); }
NVML_EXPORT Result nvmlSystemGetCudaDriverVersion_v2(int* version) { return CudaVersion(version); }

NVML_EXPORT Result nvmlDeviceGetCount_v2(unsigned* count) {
  if (LoadedDriver() == nullptr) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(DeviceCount());
  return kSuccess;
}
NVML_EXPORT Result nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

NVML_EXPORT Result nvmlDeviceGetHandleByIndex(unsigned index, DeviceHandle* handle) { return ByIndex(index, handle); }
NVML_EXPORT Result nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* handle) {
  return ByIndex(index, handle);
}
NVML_EXPORT Result nvmlDeviceGetHandleByUUID(const char* uuid, DeviceHandle* handle) {
  return Find(uuid, handle, UuidOf);
}
NVML_EXPORT Result nvmlDeviceGetHandleByPciBusId(const char* bus_id, DeviceHandle* handle) {
  return ByBusId(bus_id, handle);
}
NVML_EXPORT Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, DeviceHandle* handle) {
  return ByBusId(bus_id, handle);
}

NVML_EXPORT Result nvmlDeviceGetName(DeviceHandle handle, char* text, unsigned capacity) {
  return WithDevice(handle, [&](int number) {
    char name[256];
    if (LoadedDriver()->name(name, sizeof(name), number) != CUDA_SUCCESS) return kUnknown;
    return Copy(name, text, capacity);
  });
}

NVML_EXPORT Result nvmlDeviceGetUUID(DeviceHandle handle, char* text, unsigned capacity) {
  return WithDevice(handle, [&](int number) { return Copy(UuidOf(number), text, capacity); });
}

NVML_EXPORT Result nvmlDeviceGetIndex(DeviceHandle handle, unsigned* index) {
  return WithDevice(handle, [&](int number) { return Answer(handle, index, static_cast<unsigned>(number)); });
}
NVML_EXPORT Result nvmlDeviceGetMinorNumber(DeviceHandle handle, unsigned* minor) {
  return nvmlDeviceGetIndex(handle, minor);
}

NVML_EXPORT Result nvmlDeviceGetPciInfo(DeviceHandle handle, PciInfo* info) { return WritePciInfo(handle, info); }
NVML_EXPORT Result nvmlDeviceGetPciInfo_v2(DeviceHandle handle, PciInfo* info) { return WritePciInfo(handle, info); }
NVML_EXPORT Result nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* info) { return WritePciInfo(handle, info); }

NVML_EXPORT Result nvmlDeviceGetMemoryInfo(DeviceHandle handle, Memory* memory) {
  return WithDevice(handle, [&](int number) {
    if (memory == nullptr) return kInvalidArgument;
    *memory = MemoryOf(number);
    return kSuccess;
  });
}

NVML_EXPORT Result nvmlDeviceGetMemoryInfo_v2(DeviceHandle handle, MemoryV2* memory) {
  return WithDevice(handle, [&](int number) {
    if (memory == nullptr || memory->version != (sizeof(MemoryV2) | 2u << 24)) return kInvalidArgument;
    const Memory known = MemoryOf(number);
    memory->total = known.total;
    memory->reserved = 0;
    memory->free = known.free;
    memory->used = known.used;
    return kSuccess;
  });
}

NVML_EXPORT Result nvmlDeviceGetBAR1MemoryInfo(DeviceHandle handle, Memory* memory) {
  return nvmlDeviceGetMemoryInfo(handle, memory);
}

NVML_EXPORT Result nvmlDeviceGetComputeRunningProcesses(DeviceHandle handle, unsigned* count, ProcessInfoV1* infos) {
  return Processes(handle, count, infos);
}
NVML_EXPORT Result nvmlDeviceGetComputeRunningProcesses_v2(DeviceHandle handle, unsigned* count, ProcessInfo* infos) {
  return Processes(handle, count, infos);
}
NVML_EXPORT Result nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle handle, unsigned* count, ProcessInfo* infos) {
  return Processes(handle, count, infos);
}
NVML_EXPORT Result nvmlDeviceGetGraphicsRunningProcesses(DeviceHandle handle, unsigned* count, ProcessInfoV1*) {
  return NoProcesses(handle, count);
}
NVML_EXPORT Result nvmlDeviceGetGraphicsRunningProcesses_v2(DeviceHandle handle, unsigned* count, ProcessInfo*) {
  return NoProcesses(handle, count);
}
NVML_EXPORT Result nvmlDeviceGetGraphicsRunningProcesses_v3(DeviceHandle handle, unsigned* count, ProcessInfo*) {
  return NoProcesses(handle, count);
}

NVML_EXPORT Result nvmlDeviceGetUtilizationRates(DeviceHandle handle, Utilization* utilization) {
  return Answer(handle, utilization, Utilization{0, 0});
}
NVML_EXPORT Result nvmlDeviceGetTemperature(DeviceHandle handle, int, unsigned* degrees) {
  return Answer(handle, degrees, kIdleTemperature);
}
NVML_EXPORT Result nvmlDeviceGetPowerUsage(DeviceHandle handle, unsigned* milliwatts) {
  return Answer(handle, milliwatts, kIdlePowerMw);
}
NVML_EXPORT Result nvmlDeviceGetPowerManagementLimit(DeviceHandle handle, unsigned* milliwatts) {
  return Answer(handle, milliwatts, kPowerLimitMw);
}
NVML_EXPORT Result nvmlDeviceGetEnforcedPowerLimit(DeviceHandle handle, unsigned* milliwatts) {
  return Answer(handle, milliwatts, kPowerLimitMw);
}
NVML_EXPORT Result nvmlDeviceGetTotalEnergyConsumption(DeviceHandle handle, unsigned long long* millijoules) {
  return Answer(handle, millijoules, 0ull);
}
NVML_EXPORT Result nvmlDeviceGetFanSpeed(DeviceHandle handle, unsigned*) { return NotSupported(handle); }
NVML_EXPORT Result nvmlDeviceGetPerformanceState(DeviceHandle handle, int* state) { return Answer(handle, state, 0); }
NVML_EXPORT Result nvmlDeviceGetComputeMode(DeviceHandle handle, int* mode) { return Answer(handle, mode, 0); }
NVML_EXPORT Result nvmlDeviceGetPersistenceMode(DeviceHandle handle, int* mode) { return Answer(handle, mode, 1); }
NVML_EXPORT Result nvmlDeviceGetDisplayActive(DeviceHandle handle, int* active) { return Answer(handle, active, 0); }
NVML_EXPORT Result nvmlDeviceGetDisplayMode(DeviceHandle handle, int* mode) { return Answer(handle, mode, 0); }

// Clocks: of graphics, multiprocessors and video the one, of memory the other.
NVML_EXPORT Result nvmlDeviceGetClockInfo(DeviceHandle handle, int type, unsigned* megahertz) {
  constexpr int kMemoryClock = 2;
  return AnswerAttribute(handle, megahertz,
                         type == kMemoryClock ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE : CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
                         1000);
}
NVML_EXPORT Result nvmlDeviceGetMaxClockInfo(DeviceHandle handle, int type, unsigned* megahertz) {
  return nvmlDeviceGetClockInfo(handle, type, megahertz);
}
NVML_EXPORT Result nvmlDeviceGetApplicationsClock(DeviceHandle handle, int type, unsigned* megahertz) {
  return nvmlDeviceGetClockInfo(handle, type, megahertz);
}
NVML_EXPORT Result nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle handle, unsigned long long* reasons) {
  return Answer(handle, reasons, 1ull);  // idle
}

NVML_EXPORT Result nvmlDeviceGetCudaComputeCapability(DeviceHandle handle, int* major, int* minor) {
  const Result result = AnswerAttribute(handle, major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  return result != kSuccess ? result : AnswerAttribute(handle, minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}
NVML_EXPORT Result nvmlDeviceGetArchitecture(DeviceHandle handle, unsigned* architecture) {
  int major = 0, minor = 0;
  const Result result = nvmlDeviceGetCudaComputeCapability(handle, &major, &minor);
  return result != kSuccess ? result : Answer(handle, architecture, ArchitectureOf(major, minor));
}
NVML_EXPORT Result nvmlDeviceGetNumGpuCores(DeviceHandle handle, unsigned* cores) {
  int major = 0, minor = 0;
  if (const Result error = nvmlDeviceGetCudaComputeCapability(handle, &major, &minor)) return error;
  if (const Result error = AnswerAttribute(handle, cores, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)) return error;
  *cores *= CoresOf(major, minor);
  return kSuccess;
}
NVML_EXPORT Result nvmlDeviceGetMemoryBusWidth(DeviceHandle handle, unsigned* bits) {
  return AnswerAttribute(handle, bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
}
NVML_EXPORT Result nvmlDeviceGetEccMode(DeviceHandle handle, int* current, int* pending) {
  const Result result = AnswerAttribute(handle, current, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  return result != kSuccess ? result : AnswerAttribute(handle, pending, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
}
NVML_EXPORT Result nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  const Result result = Answer(handle, current, 0u);
  return result != kSuccess ? result : Answer(handle, pending, 0u);
}
NVML_EXPORT Result nvmlDeviceGetMaxPcieLinkGeneration(DeviceHandle handle, unsigned* generation) {
  return Answer(handle, generation, 5u);
}
NVML_EXPORT Result nvmlDeviceGetCurrPcieLinkGeneration(DeviceHandle handle, unsigned* generation) {
  return Answer(handle, generation, 5u);
}
NVML_EXPORT Result nvmlDeviceGetMaxPcieLinkWidth(DeviceHandle handle, unsigned* width) {
  return Answer(handle, width, 16u);
}
NVML_EXPORT Result nvmlDeviceGetCurrPcieLinkWidth(DeviceHandle handle, unsigned* width) {
  return Answer(handle, width, 16u);
}
NVML_EXPORT Result nvmlDeviceGetPcieThroughput(DeviceHandle handle, int, unsigned* kilobytes) {
  return Answer(handle, kilobytes, 0u);
}

// Devices reach each other where the driver says so; all hang on one switch.
NVML_EXPORT Result nvmlDeviceGetP2PStatus(DeviceHandle handle, DeviceHandle, int, int* status) {
  return Answer(handle, status, 0);
}
NVML_EXPORT Result nvmlDeviceGetTopologyCommonAncestor(DeviceHandle handle, DeviceHandle, int* level) {
  return Answer(handle, level, 20);
}

NVML_EXPORT Result nvmlDeviceGetNvLinkState(DeviceHandle handle, unsigned, unsigned*) { return NotSupported(handle); }
NVML_EXPORT Result nvmlDeviceGetNvLinkVersion(DeviceHandle handle, unsigned, unsigned*) { return NotSupported(handle); }
NVML_EXPORT Result nvmlDeviceGetNvLinkCapability(DeviceHandle handle, unsigned, int, unsigned*) {
  return NotSupported(handle);
}
NVML_EXPORT Result nvmlDeviceGetNvLinkRemoteDeviceType(DeviceHandle handle, unsigned, int*) {
  return NotSupported(handle);
}
NVML_EXPORT Result nvmlDeviceGetNvLinkRemotePciInfo_v2(DeviceHandle handle, unsigned, PciInfo*) {
  return NotSupported(handle);
}
NVML_EXPORT Result nvmlDeviceGetGpuFabricInfo(DeviceHandle handle, void*) { return NotSupported(handle); }
NVML_EXPORT Result nvmlDeviceGetGpuFabricInfoV(DeviceHandle handle, void*) { return NotSupported(handle); }
NVML_EXPORT Result nvmlDeviceGetFieldValues(DeviceHandle handle, int, void*) { return NotSupported(handle); }

}  // namespace stalloc::simcuda::nvml
