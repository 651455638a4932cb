#include "devices.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>

namespace stalloc::simcuda::nvml {
namespace {

std::atomic<int> initialised{0};

const Driver* Load() {
  static Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  bool complete = true;
  const auto find = [&](auto* function, const char* symbol) {
    *function = reinterpret_cast<std::decay_t<decltype(*function)>>(dlsym(library, symbol));
    complete &= *function != nullptr;
  };
  find(&driver.init, "cuInit");
  find(&driver.version, "cuDriverGetVersion");
  find(&driver.count, "cuDeviceGetCount");
  find(&driver.name, "cuDeviceGetName");
  find(&driver.attribute, "cuDeviceGetAttribute");
  find(&driver.total, "cuDeviceTotalMem_v2");
  find(&driver.uuid, "cuDeviceGetUuid_v2");
  find(&driver.used, "simcudaUsedBytes");
  find(&driver.processes, "simcudaProcesses");
  return complete ? &driver : nullptr;
}

}  // namespace

const Driver* LoadedDriver() {
  static const Driver* const driver = Load();
  return initialised > 0 ? driver : nullptr;
}

Result Initialise() {
  ++initialised;
  const Driver* driver = LoadedDriver();
  if (driver != nullptr && driver->init(0) == CUDA_SUCCESS) return kSuccess;
  --initialised;
  return kDriverNotLoaded;
}

Result Shutdown() {
  if (initialised == 0) return kUninitialized;
  --initialised;
  return kSuccess;
}

int DeviceCount() {
  int count = 0;
  const Driver* driver = LoadedDriver();
  return driver != nullptr && driver->count(&count) == CUDA_SUCCESS ? count : 0;
}

int NumberOf(DeviceHandle handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return number >= 1 && number <= static_cast<std::uintptr_t>(DeviceCount()) ? static_cast<int>(number) - 1 : -1;
}

DeviceHandle HandleOf(int number) { return reinterpret_cast<DeviceHandle>(static_cast<std::uintptr_t>(number) + 1); }

std::string UuidOf(int number) {
  CUuuid uuid{};
  LoadedDriver()->uuid(&uuid, number);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

std::string BusIdOf(int number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%08x:%02x:%02x.0", AttributeOf(number, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                AttributeOf(number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                AttributeOf(number, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  return text;
}

int AttributeOf(int number, CUdevice_attribute attribute) {
  int value = 0;
  LoadedDriver()->attribute(&value, attribute, number);
  return value;
}

}  // namespace stalloc::simcuda::nvml
