// cuBLASLt. One algorithm suits every product; it needs no workspace of its own, which changes no caller that offers
// one of a fixed size, as PyTorch does.
#include <cstring>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

// cublasLtMatmulHeuristicResult_t: the algorithm (64 bytes), its workspace (8), status (4), waves (4), reserved (16).
constexpr std::size_t kHeuristicResultBytes = 96;

int OneResult(Arguments arguments, int results_position, int count_position) {
  std::memset(Pointer<void>(arguments[results_position]), 0, kHeuristicResultBytes);
  return SetHostInt(arguments, count_position, 1);
}

// Descriptors that the caller owns: cublasLtMatmulDescInit_internal(descriptor, size in bytes, ...).
int ClearCallersObject(Arguments arguments) {
  std::memset(Pointer<void>(arguments[0]), 0, arguments[1]);
  return 0;
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
ROW(cublasLtCreate, CreateObject, 0)
ROW(cublasLtDestroy, DestroyObject, 0)
ROW(cublasLtMatmul, Nothing)
ROW(cublasLtMatmulAlgoGetHeuristic, OneResult, 8, 9)
ROW(cublasLtMatmulDescCreate, CreateObject, 0)
ROW(cublasLtMatmulDescDestroy, DestroyObject, 0)
ROW(cublasLtMatmulDescInit_internal, ClearCallersObject)
ROW(cublasLtMatmulDescSetAttribute, Nothing)
ROW(cublasLtMatmulPreferenceCreate, CreateObject, 0)
ROW(cublasLtMatmulPreferenceDestroy, DestroyObject, 0)
ROW(cublasLtMatmulPreferenceInit_internal, ClearCallersObject)
ROW(cublasLtMatmulPreferenceSetAttribute, Nothing)
ROW(cublasLtMatrixLayoutCreate, CreateObject, 0)
ROW(cublasLtMatrixLayoutDestroy, DestroyObject, 0)
ROW(cublasLtMatrixLayoutInit_internal, ClearCallersObject)
ROW(cublasLtMatrixLayoutSetAttribute, Nothing)
ROW(cublasLtMatrixTransform, Nothing)
ROW(cublasLtMatrixTransformDescCreate, CreateObject, 0)
ROW(cublasLtMatrixTransformDescDestroy, DestroyObject, 0)
ROW(cublasLtMatrixTransformDescSetAttribute, Nothing)
#undef ROW

STAND_IN_EXPORT std::size_t cublasLtGetVersion();
std::size_t cublasLtGetVersion() { return 130100; }

}  // namespace stalloc::simcuda::libraries
