// Array: memory that copies reach by a handle and an offset. What its layout would be on a real device cannot be seen;
// here its rows lie one after the other, mapped where no program is told of.
#pragma once

#include "cuda_driver.h"

namespace stalloc::simcuda {

struct Array {
  CUdeviceptr begin = 0;
  std::uint64_t mapped_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;  // of a slice
  int device = 0;
};

}  // namespace stalloc::simcuda
