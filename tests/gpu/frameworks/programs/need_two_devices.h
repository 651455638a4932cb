// For programs about two devices: where there are fewer they say so, which counts as skipped, and end.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "check.h"

inline void NeedTwoDevices() {
  int count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  if (count >= 2) return;
  std::printf("skip needs two devices\n");
  std::exit(0);
}
