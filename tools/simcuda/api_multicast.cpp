// Entry points of multicast memory, which the simulated devices do not support: CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
// is 0, as of a card that hangs on no switch of NVLink's.
#include "call.h"

namespace stalloc::simcuda {
namespace {

CUresult NotSupported(EntryPoint entry) {
  return Enter(entry, [](Call&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle*, const CUmulticastObjectProp*) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastCreate));
}

SIMCUDA_EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastAddDevice));
}

SIMCUDA_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, std::size_t, CUmemGenericAllocationHandle,
                                           std::size_t, std::size_t, unsigned long long) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastBindMem));
}

SIMCUDA_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle, std::size_t, CUdeviceptr, std::size_t,
                                            unsigned long long) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastBindAddr));
}

SIMCUDA_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, std::size_t, std::size_t) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastUnbind));
}

SIMCUDA_EXPORT CUresult cuMulticastGetGranularity(std::size_t*, const CUmulticastObjectProp*,
                                                  CUmulticastGranularity_flags) {
  return NotSupported(SIMCUDA_ENTRY(cuMulticastGetGranularity));
}

}  // namespace stalloc::simcuda
