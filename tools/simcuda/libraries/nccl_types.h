// NCCL's enumerations and the two structures that are passed by value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalloc::simcuda::libraries {

enum Result : int { kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5 };

enum DataType : int { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kFloat16, kFloat32, kFloat64, kBfloat16 };

enum Reduction : int { kSum, kProduct, kMax, kMin, kAverage };

struct UniqueId {
  char text[128];
};

inline std::size_t DataTypeBytes(int type) {
  switch (type) {
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    case kFloat16:
    case kBfloat16:
      return 2;
    default:
      return 1;  // and the 8-bit floating-point types
  }
}

}  // namespace stalloc::simcuda::libraries
