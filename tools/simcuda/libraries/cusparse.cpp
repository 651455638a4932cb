// cuSPARSE. A matrix keeps its size; how many entries a product or a sum has is not known, so it is taken to have as
// many as its operands together, at most all.
#include <algorithm>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

// (*descriptor, rows, columns, nonzeros, ...)
int CreateMatrix(Arguments arguments) {
  auto* object = new Object();
  object->rows = Int64(arguments[1]);
  object->columns = Int64(arguments[2]);
  object->nonzeros = Int64(arguments[3]);
  *Pointer<Object*>(arguments[0]) = object;
  return 0;
}

int GetMatrixSize(Arguments arguments) {
  const Object* object = ObjectOf(arguments[0]);
  *Pointer<std::int64_t>(arguments[1]) = object->rows;
  *Pointer<std::int64_t>(arguments[2]) = object->columns;
  *Pointer<std::int64_t>(arguments[3]) = object->nonzeros;
  return 0;
}

// cusparseSpGEMM_compute(handle, opA, opB, alpha, A, B, beta, C, computeType, algorithm, descriptor, *size, buffer)
int ComputeProduct(Arguments arguments) {
  Object* product = ObjectOf(arguments[7]);
  const std::int64_t entries = ObjectOf(arguments[4])->nonzeros + ObjectOf(arguments[5])->nonzeros;
  product->nonzeros = std::min(entries, product->rows * product->columns);
  return SetHostSize(arguments, 11, 0);
}

// cusparseXcsrgeam2Nnz(handle, m, n, A, nnzA, rows, columns, B, nnzB, rows, columns, C, rows, *nnzTotal, workspace)
int CountSum(Arguments arguments) {
  const std::int64_t most = Int32(arguments[1]) * Int32(arguments[2]);
  const std::int64_t entries = Int32(arguments[4]) + Int32(arguments[8]);
  return SetHostInt(arguments, 13, static_cast<int>(std::min(entries, most)));
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
#include "cusparse.def"
ROW(cusparseCreateCoo, CreateMatrix)
ROW(cusparseCreateCsr, CreateMatrix)
ROW(cusparseCreateDnMat, CreateMatrix)
ROW(cusparseSpMatGetSize, GetMatrixSize)
ROW(cusparseSpGEMM_compute, ComputeProduct)
ROW(cusparseXcsrgeam2Nnz, CountSum)
#undef ROW

STAND_IN_EXPORT const char* cusparseGetErrorString(int);
const char* cusparseGetErrorString(int status) {
  return status == 0 ? "success" : "an error of the stand-in for cuSPARSE";
}

}  // namespace stalloc::simcuda::libraries
