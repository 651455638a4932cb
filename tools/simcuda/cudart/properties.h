// What cudaGetDeviceProperties tells, for the structs of CUDA 12 and 13, whose members have the same names.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime.h"

namespace stalloc::simcuda::cudart {

template <typename Properties>
CUresult FillProperties(const DriverFunctions& driver, Properties* properties, int device) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(properties, 0, sizeof(*properties));
  if (const CUresult error = driver.real_cuDeviceGetName(properties->name, sizeof(properties->name), device))
    return error;
  driver.real_cuDeviceTotalMem(&properties->totalGlobalMem, device);
  driver.real_cuDeviceGetUuid(&properties->uuid, device);
#define CUDART_PROPERTY(member, attribute)                                               \
  {                                                                                      \
    int value = 0;                                                                       \
    driver.real_cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_##attribute, device);   \
    properties->member = static_cast<std::decay_t<decltype(properties->member)>>(value); \
  }
#include "properties.def"
#undef CUDART_PROPERTY
  return CUDA_SUCCESS;
}

}  // namespace stalloc::simcuda::cudart
