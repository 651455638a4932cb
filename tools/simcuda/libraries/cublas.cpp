// cuBLAS. Handles keep their stream; products do nothing. The workspace is the caller's: PyTorch allocates one for each
// handle and stream, and so it does here.
#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {
constexpr int kVersion = 130100;
}

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
#include "cublas.def"
#undef ROW

STAND_IN_EXPORT const char* cublasGetStatusString(int);
const char* cublasGetStatusString(int status) {
  return status == 0 ? "success" : "an error of the stand-in for cuBLAS";
}

STAND_IN_EXPORT const char* cublasGetStatusName(int);
const char* cublasGetStatusName(int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

}  // namespace stalloc::simcuda::libraries
