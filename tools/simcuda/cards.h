// Cards: the devices that the simulation can look like, SIMCUDA_DEVICE's values. Constant data; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cuda_driver.h"

namespace stalloc::simcuda {

struct Card {
  const char* key;   // as SIMCUDA_DEVICE has it
  const char* name;  // as cuDeviceGetName has it
  int major, minor;
  int multiprocessors;
  std::uint64_t memory_bytes;
  int clock_khz, memory_clock_khz;
  int bus_width_bits;
  int l2_bytes;
  int shared_bytes_per_multiprocessor, shared_bytes_per_block_optin;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  int copy_engines;
  int single_to_double_ratio;
  int cores_per_multiprocessor;
  int power_limit_mw;
  int nvml_architecture;
  bool ecc;
  bool data_centre;
};

// Null if there is none of that name.
const Card* FindCard(std::string_view key);
// All of them, for an error's sentence.
std::string CardKeys();

// What cuDeviceGetAttribute answers, except where the device lies on the bus. 0 < attribute < CU_DEVICE_ATTRIBUTE_MAX.
int CardAttribute(const Card& card, CUdevice_attribute attribute);

// Of device memory, as far as a copy reaches.
std::uint64_t BytesPerMicrosecond(const Card& card);

}  // namespace stalloc::simcuda
