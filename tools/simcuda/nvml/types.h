// The part of NVML's interface that the stand-in has: numbers and structs of its ABI, whose header few machines have.
#pragma once

#include <cstdint>

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace stalloc::simcuda::nvml {

enum Result : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kUnknown = 999,
};

// An opaque handle: a device's number, counted from 1.
using DeviceHandle = struct DeviceOfNvml*;

struct Memory {
  std::uint64_t total, free, used;
};

struct MemoryV2 {
  unsigned version;
  std::uint64_t total, reserved, free, used;
};

struct Utilization {
  unsigned gpu, memory;
};

struct ProcessInfoV1 {
  unsigned process;
  std::uint64_t used_bytes;
};

struct ProcessInfo {
  unsigned process;
  std::uint64_t used_bytes;
  unsigned gpu_instance, compute_instance;
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};

}  // namespace stalloc::simcuda::nvml
