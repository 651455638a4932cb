// Hints about managed memory. Here it lies in host memory that devices reach, and stays there.
#pragma once

#include "runtime.h"

namespace stalloc::simcuda::cudart {

// What a hint about [pointer, pointer + size) is answered: cudaErrorInvalidValue unless the memory is managed.
inline cudaError_t HintAbout(const void* pointer, size_t size_bytes) {
  return Finish(WithContext([&](const DriverFunctions& driver) {
    unsigned managed = 0;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_IS_MANAGED;
    void* value = &managed;
    if (const CUresult error = driver.real_cuPointerGetAttributes(1, &wanted, &value, Address(pointer))) return error;
    return managed != 0 && size_bytes != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }));
}

}  // namespace stalloc::simcuda::cudart
