// What a test program may ask of the fake driver, by dlsym on libcuda.so.1. Not functions of CUDA.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// How often the driver's own function `name` has run.
long FakeCudaCalls(const char* name);

// The next `count` allocations of any kind fail for want of memory.
void FakeCudaFailNext(int count);

#ifdef __cplusplus
}
#endif
