// A tensor as cuDNN's descriptors describe it.
#pragma once

#include <cstdint>
#include <vector>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {

// cudnnDataType_t to bytes; types of less than a byte count as one.
inline std::int64_t CudnnElementBytes(std::int64_t data_type) {
  switch (data_type) {
    case 0:   // float
    case 4:   // int32
    case 19:  // uint32
      return 4;
    case 1:   // double
    case 10:  // int64
    case 20:  // complex of floats
      return 8;
    case 2:  // half
    case 9:  // bfloat16
      return 2;
    default:
      return 1;
  }
}

struct CudnnTensor : Object {
  std::int64_t data_type = 0;
  std::vector<std::int64_t> sizes, strides;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) product *= size;
    return product;
  }
  std::int64_t element_bytes() const { return CudnnElementBytes(data_type); }
  std::int64_t size_bytes() const { return elements() * element_bytes(); }
  // The channels (the second dimension) lie next to each other.
  bool channels_last() const { return strides.size() > 1 && strides[1] == 1; }
};

}  // namespace stalloc::simcuda::libraries
