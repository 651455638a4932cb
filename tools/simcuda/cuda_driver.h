// cuda.h, with everything that it declares exported: simcuda defines these functions, the rest of the project is
// compiled with hidden visibility. Every file of simcuda that defines an entry point includes this instead of cuda.h.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

// Begins the definition of an entry point, inside namespace stalloc::simcuda: C functions of one name are one function,
// whatever namespace they are declared in.
#define SIMCUDA_EXPORT extern "C" __attribute__((visibility("default")))
