// Entry points that need no device: initialisation, versions, names of errors.
#include "call.h"
#include "error_names.h"

namespace stalloc::simcuda {

SIMCUDA_EXPORT CUresult cuInit(unsigned flags) {
  return Enter(SIMCUDA_ENTRY(cuInit), [&](Call& call) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.forked) return CUDA_ERROR_NOT_INITIALIZED;
    if (!call.machine.usable) return CUDA_ERROR_INVALID_DEVICE;
    if (call.machine.devices.empty()) return CUDA_ERROR_NO_DEVICE;
    call.machine.initialised = true;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDriverGetVersion(int* version) {
  return Enter(SIMCUDA_ENTRY(cuDriverGetVersion), [&](Call&) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuGetErrorName(CUresult error, const char** text) {
  return Enter(SIMCUDA_ENTRY(cuGetErrorName), [&](Call&) {
    if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *text = ErrorName(error);
    return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

SIMCUDA_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  return Enter(SIMCUDA_ENTRY(cuGetErrorString), [&](Call&) {
    if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *text = ErrorSentence(error);
    return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// The tables behind it are private to the real runtime and its driver.
SIMCUDA_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  return Enter(SIMCUDA_ENTRY(cuGetExportTable), [&](Call&) {
    if (table != nullptr) *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
  });
}

}  // namespace stalloc::simcuda
