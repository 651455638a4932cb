// cuSPARSELt: products with one operand of which two in four elements are kept. Descriptors are structures of the
// caller, of some kilobytes, whose first words hold the size of the matrix here.
#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

// cudaDataType_t of one byte an element: CUDA_R_8I, CUDA_R_8U, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2; of four: CUDA_R_32F.
std::int64_t ElementBytes(std::int64_t type) {
  if (type == 3 || type == 8 || type == 28 || type == 29) return 1;
  return type == 0 || type == 10 ? 4 : 2;
}

// (handle, *descriptor, rows, columns, ld, alignment, type, order, ...)
int InitMatrix(Arguments arguments) {
  auto* size_bytes = Pointer<std::int64_t>(arguments[1]);
  *size_bytes = Int64(arguments[2]) * Int64(arguments[3]) * ElementBytes(Int32(arguments[6]));
  return 0;
}

// Half of the elements, and two bits for each of them: 9/16 of a matrix of two-byte elements.
int CompressedSize(Arguments arguments) {
  const std::int64_t size_bytes = *Pointer<const std::int64_t>(arguments[1]);
  SetHostSize(arguments, 2, static_cast<std::size_t>(size_bytes * 9 / 16));
  return SetHostSize(arguments, 3, 0);
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
ROW(cusparseLtDenseDescriptorInit, InitMatrix)
ROW(cusparseLtDestroy, Nothing)
ROW(cusparseLtInit, Nothing)
ROW(cusparseLtMatDescriptorDestroy, Nothing)
ROW(cusparseLtMatmul, Nothing)
ROW(cusparseLtMatmulAlgGetAttribute, SetHostInt, 3, 1)
ROW(cusparseLtMatmulAlgSelectionInit, Nothing)
ROW(cusparseLtMatmulAlgSetAttribute, Nothing)
ROW(cusparseLtMatmulDescSetAttribute, Nothing)
ROW(cusparseLtMatmulDescriptorInit, Nothing)
ROW(cusparseLtMatmulGetWorkspace, SetHostSize, 2, 0)
ROW(cusparseLtMatmulPlanDestroy, Nothing)
ROW(cusparseLtMatmulPlanInit, Nothing)
ROW(cusparseLtMatmulSearch, Nothing)
ROW(cusparseLtSpMMACompress2, Nothing)
ROW(cusparseLtSpMMACompressedSize2, CompressedSize)
ROW(cusparseLtStructuredDescriptorInit, InitMatrix)
#undef ROW

}  // namespace stalloc::simcuda::libraries
