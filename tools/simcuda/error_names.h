// Names and sentences of the driver's errors. Null for a code that CUDA does not define or simcuda never returns.
#pragma once

#include <cuda.h>

namespace stalloc::simcuda {

const char* ErrorName(CUresult error);
const char* ErrorSentence(CUresult error);

}  // namespace stalloc::simcuda
