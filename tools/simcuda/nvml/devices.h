// The devices that NVML tells of: the simulated driver's, which is asked like any other. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

#include "types.h"

namespace stalloc::simcuda::nvml {

// What of libcuda.so.1 is used. Null members never: a driver that lacks one is none.
struct Driver {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) version;
  decltype(&::cuDeviceGetCount) count;
  decltype(&::cuDeviceGetName) name;
  decltype(&::cuDeviceGetAttribute) attribute;
  decltype(&::cuDeviceTotalMem) total;
  CUresult (*uuid)(CUuuid*, CUdevice);
  std::uint64_t (*used)(int);
  std::size_t (*processes)(int, int*, std::uint64_t*, std::size_t);
};

// Null before nvmlInit, or where there is no simulated driver.
const Driver* LoadedDriver();
Result Initialise();
Result Shutdown();

int DeviceCount();
// -1 if the handle is of none.
int NumberOf(DeviceHandle handle);
DeviceHandle HandleOf(int number);
std::string UuidOf(int number);   // GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
std::string BusIdOf(int number);  // 00000000:01:00.0
int AttributeOf(int number, CUdevice_attribute attribute);

}  // namespace stalloc::simcuda::nvml
