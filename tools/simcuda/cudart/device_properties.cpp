// cudaGetDeviceProperties of CUDA 13.
#include "properties.h"

namespace stalloc::simcuda::cudart {

CUDART_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Finish(WithDriver([&](const Driver& driver) {
    const DriverFunctions& functions = driver.legacy;
    if (const CUresult error = FillProperties(functions, properties, device)) return error;
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      functions.real_cuDeviceGetAttribute(&value, which, device);
      return value;
    };
    properties->deviceNumaConfig = attribute(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
    properties->deviceNumaId = attribute(CU_DEVICE_ATTRIBUTE_NUMA_ID);
    properties->mpsEnabled = attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
    properties->hostNumaId = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    properties->gpuPciDeviceID = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID));
    properties->gpuPciSubsystemID = static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID));
    return CUDA_SUCCESS;
  }));
}

}  // namespace stalloc::simcuda::cudart
