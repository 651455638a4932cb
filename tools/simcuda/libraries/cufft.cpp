// cuFFT. A plan's work area has the size of its data where one of its dimensions is too long for one pass (measured on
// an H200: 8 192 and 16 384 real take none, 65 536 take the data's size; two dimensions of 512 take none).
#include <atomic>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

std::atomic<std::int32_t> next_plan{1};

int CreatePlan(Arguments arguments) {
  *Pointer<std::int32_t>(arguments[0]) = next_plan++;
  return 0;
}

// The longest dimension that one pass over the data transforms, in complex numbers: what a block's shared memory holds.
constexpr std::int64_t kOnePassElements = 16384;

// Sizes of cudaDataType_t that a transform may compute in: half, float, double, each real or complex.
std::int64_t ComplexBytes(std::int64_t type) {
  switch (type) {
    case 2:  // CUDA_R_16F
    case 6:  // CUDA_C_16F
      return 4;
    case 1:  // CUDA_R_64F
    case 5:  // CUDA_C_64F
      return 16;
    default:
      return 8;
  }
}

// cufftXtMakePlanMany(plan, rank, n, inembed, istride, idist, inputtype, onembed, ostride, odist, outputtype, batch,
// workSize, executiontype)
int MakePlan(Arguments arguments) {
  const std::int64_t rank = Int32(arguments[1]);
  const auto* lengths = Pointer<const std::int64_t>(arguments[2]);
  std::int64_t elements = 1;
  bool one_pass = true;
  for (std::int64_t i = 0; i < rank; ++i) {
    elements *= lengths[i];
    one_pass = one_pass && lengths[i] <= kOnePassElements;
  }
  const std::int64_t bytes = elements * Int64(arguments[11]) * ComplexBytes(Int32(arguments[13]));
  return SetHostSize(arguments, 12, one_pass ? 0 : static_cast<std::size_t>(bytes));
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
ROW(cufftCreate, CreatePlan)
ROW(cufftDestroy, Nothing)
ROW(cufftSetAutoAllocation, Nothing)
ROW(cufftSetStream, Nothing)
ROW(cufftSetWorkArea, Nothing)
ROW(cufftXtExec, Nothing)
ROW(cufftXtMakePlanMany, MakePlan)
#undef ROW

}  // namespace stalloc::simcuda::libraries
