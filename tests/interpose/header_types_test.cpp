// The types in which the table has the oldest functions, against NVIDIA's own. The header shows all its versions only
// to those who ask for its internal form, in which the unsuffixed names are the old functions.
#define __CUDA_API_VERSION_INTERNAL
#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace {

template <typename A, typename B>
constexpr bool kSame = std::is_same_v<A, B>;

TEST(HeaderTypes, OldestVersionsAreAsTheTableSays) {
  static_assert(kSame<PFN_cuStreamDestroy_v2000, PFN_cuStreamDestroy_v4000>);
  static_assert(kSame<PFN_cuCtxDestroy_v2000, PFN_cuCtxDestroy_v4000>);
  static_assert(kSame<PFN_cuDevicePrimaryCtxRelease_v7000, PFN_cuDevicePrimaryCtxRelease_v11000>);
  static_assert(kSame<PFN_cuDevicePrimaryCtxReset_v7000, PFN_cuDevicePrimaryCtxReset_v11000>);
  static_assert(kSame<PFN_cuStreamBeginCapture_v10000, CUresult(CUDAAPI*)(CUstream)>);
  static_assert(kSame<PFN_cuStreamBeginCapture_v10000_ptsz, CUresult(CUDAAPI*)(CUstream)>);
  static_assert(kSame<decltype(&cuGetProcAddress), PFN_cuGetProcAddress_v11030>);
  static_assert(kSame<decltype(&cuStreamBeginCapture), PFN_cuStreamBeginCapture_v10000>);
  // What makes them worth keeping apart: the 32-bit interface.
  static_assert(!kSame<decltype(&cuMemAlloc), decltype(&cuMemAlloc_v2)>);
}

}  // namespace
