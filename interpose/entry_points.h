// The table of entry points as types: one enumerator, one function type and one row for each.
//
// Owns the declarations under which the wrappers are exported. Constant; any thread; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/base/driver_api.h"  // before the #undefs below: its members take the names that cuda.h maps

// cudaTypedefs.h has NVIDIA's own type of every driver function in every version, the old ones included, which cuda.h
// declares only for itself.
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

// The types of the oldest versions, which cudaTypedefs.h keeps to NVIDIA's own builds. Checked against those by
// tests/interpose/header_types_test.
using PFN_cuStreamDestroy_v2000 = PFN_cuStreamDestroy_v4000;
using PFN_cuCtxCreate_v2000 = PFN_cuCtxCreate_v3020;
using PFN_cuCtxDestroy_v2000 = PFN_cuCtxDestroy_v4000;
using PFN_cuDevicePrimaryCtxRelease_v7000 = PFN_cuDevicePrimaryCtxRelease_v11000;
using PFN_cuDevicePrimaryCtxReset_v7000 = PFN_cuDevicePrimaryCtxReset_v11000;
using PFN_cuDevicePrimaryCtxSetFlags_v7000 = PFN_cuDevicePrimaryCtxSetFlags_v11000;
using PFN_cuEventDestroy_v2000 = PFN_cuEventDestroy_v4000;
using PFN_cuStreamBeginCapture_v10000 = CUresult(CUDAAPI*)(CUstream);
using PFN_cuStreamBeginCapture_v10000_ptsz = CUresult(CUDAAPI*)(CUstream);

// Functions without a stream argument end in _ptds where they follow the per-thread default stream.
using PFN_cuMemcpy_v7000_ptsz = PFN_cuMemcpy_v7000_ptds;
using PFN_cuMemcpyDtoD_v7000_ptsz = PFN_cuMemcpyDtoD_v7000_ptds;
using PFN_cuMemcpyDtoH_v7000_ptsz = PFN_cuMemcpyDtoH_v7000_ptds;
using PFN_cuMemcpyHtoD_v7000_ptsz = PFN_cuMemcpyHtoD_v7000_ptds;
using PFN_cuMemcpyAtoD_v7000_ptsz = PFN_cuMemcpyAtoD_v7000_ptds;
using PFN_cuMemcpyDtoA_v7000_ptsz = PFN_cuMemcpyDtoA_v7000_ptds;
using PFN_cuMemcpy2D_v7000_ptsz = PFN_cuMemcpy2D_v7000_ptds;
using PFN_cuMemcpy2DUnaligned_v7000_ptsz = PFN_cuMemcpy2DUnaligned_v7000_ptds;
using PFN_cuMemcpy3D_v7000_ptsz = PFN_cuMemcpy3D_v7000_ptds;
using PFN_cuMemsetD8_v7000_ptsz = PFN_cuMemsetD8_v7000_ptds;
using PFN_cuMemsetD16_v7000_ptsz = PFN_cuMemsetD16_v7000_ptds;
using PFN_cuMemsetD32_v7000_ptsz = PFN_cuMemsetD32_v7000_ptds;
using PFN_cuMemsetD2D8_v7000_ptsz = PFN_cuMemsetD2D8_v7000_ptds;
using PFN_cuMemsetD2D16_v7000_ptsz = PFN_cuMemsetD2D16_v7000_ptds;
using PFN_cuMemsetD2D32_v7000_ptsz = PFN_cuMemsetD2D32_v7000_ptds;

// Names that cuda.h maps to their newest version. Here each name means the symbol of exactly that spelling.
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuGraphAddNode
#undef cuMemcpy3DBatchAsync
#undef cuMemcpyBatchAsync
#undef cuDevicePrimaryCtxRelease
#undef cuEventDestroy
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuGetProcAddress
#undef cuStreamBeginCapture
#undef cuStreamDestroy

// A function type without the default arguments that cuda_runtime_api.h gives some functions: g++ keeps them in the
// type.
namespace stalloc::interpose {
template <typename Function>
struct WithoutDefaults;
template <typename Result, typename... Parameters>
struct WithoutDefaults<Result (*)(Parameters...)> {
  using Type = Result(Parameters...);
};
}  // namespace stalloc::interpose

// The declarations under which the wrappers are exported: where cuda.h or cuda_runtime_api.h declares the name too, the
// compiler compares the two.
#define STALLOC_EXPORTED extern "C" __attribute__((visibility("default")))
#define STALLOC_DRIVER(name, base, version, handling) \
  STALLOC_EXPORTED std::remove_pointer_t<PFN_##base##_v##version> name;
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) \
  STALLOC_EXPORTED std::remove_pointer_t<PFN_##base##_v##version##_ptsz> name;
#define STALLOC_RUNTIME(name, declaration, handling) \
  STALLOC_EXPORTED ::stalloc::interpose::WithoutDefaults<decltype(&::declaration)>::Type name;
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) \
  STALLOC_EXPORTED ::stalloc::interpose::WithoutDefaults<decltype(&::declaration)>::Type name;
#include "entry_points.def"

namespace stalloc::interpose {

enum class Library : std::uint8_t { kDriver, kRuntime };
enum class Streams : std::uint8_t { kLegacy, kPerThread };  // what stream 0 means in this function
enum class Handling : std::uint8_t { kServe, kAnswer, kObserve, kRoute, kRecall, kRetry, kResolve };

// clang-format off
enum class Entry : std::uint8_t {
#define STALLOC_DRIVER(name, base, version, handling) k_##name,
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) k_##name,
#define STALLOC_RUNTIME(name, declaration, handling) k_##name,
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) k_##name,
#include "entry_points.def"
};

inline constexpr std::size_t kEntryCount = 0
#define STALLOC_DRIVER(name, base, version, handling) + 1
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) + 1
#define STALLOC_RUNTIME(name, declaration, handling) + 1
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) + 1
#include "entry_points.def"
    ;
// clang-format on

// The type of each entry point.
template <Entry kEntry>
struct EntryTraits;

#define STALLOC_TRAITS(name, kind)                    \
  template <>                                         \
  struct EntryTraits<Entry::k_##name> {               \
    using Function = decltype(::name);                \
    static constexpr Library library = Library::kind; \
  };
#define STALLOC_DRIVER(name, base, version, handling) STALLOC_TRAITS(name, kDriver)
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) STALLOC_TRAITS(name, kDriver)
#define STALLOC_RUNTIME(name, declaration, handling) STALLOC_TRAITS(name, kRuntime)
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) STALLOC_TRAITS(name, kRuntime)
#include "entry_points.def"
#undef STALLOC_TRAITS

struct EntryPoint {
  const char* name;  // as exported
  const char* base;  // as asked of cuGetProcAddress; null for the runtime library
  int version;       // the first CUDA version in which cuGetProcAddress gives this one; 0 for the runtime library
  Library library;
  Streams streams;
  Handling handling;
  void* wrapper;
};

// All rows, in the order of Entry.
extern const EntryPoint kEntryPoints[kEntryCount];

inline const EntryPoint& PointOf(Entry entry) noexcept { return kEntryPoints[static_cast<std::size_t>(entry)]; }

// The row with exactly this name, or null.
const EntryPoint* FindEntryPoint(const char* name) noexcept;

}  // namespace stalloc::interpose
