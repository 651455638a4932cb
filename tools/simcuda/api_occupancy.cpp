// Entry points that say how many blocks of a kernel run at once, the linker of device code, tensor maps, the profiler.
#include <algorithm>
#include <cstring>

#include "call.h"

namespace stalloc::simcuda {
namespace {

constexpr int kPortableClusterBlocks = 8;

template <typename Body>
CUresult WithFunction(EntryPoint entry, CUfunction handle, Body&& body) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Function> function = call.machine.functions.Find(handle);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(call.machine.card(), *function);
  });
}

CUresult CountBlocks(EntryPoint entry, int* blocks, CUfunction handle, int threads, std::size_t dynamic_shared_bytes) {
  return WithFunction(entry, handle, [&](const Card& card, Function& function) {
    if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = BlocksPerMultiprocessor(card, function, threads, dynamic_shared_bytes);
    return CUDA_SUCCESS;
  });
}

std::uint64_t BlocksOf(unsigned x, unsigned y, unsigned z) { return std::uint64_t{x} * y * z; }

// Linked code: what an image is, nothing is known of.
struct LinkedImage {
  char bytes[64] =
      "\x7f"
      "ELF, simulated";
};

CUresult EncodeTensorMap(EntryPoint entry, CUtensorMap* map, const void* address) {
  return Enter(entry, [&](Call& call) {
    if (call.machine.card().major < 9) return CUDA_ERROR_NOT_SUPPORTED;
    if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memset(map, 0, sizeof(*map));
    map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
    return CUDA_SUCCESS;
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                                    std::size_t dynamic_shared_bytes) {
  return CountBlocks(SIMCUDA_ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor), blocks, function, threads,
                     dynamic_shared_bytes);
}

SIMCUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                             int threads,
                                                                             std::size_t dynamic_shared_bytes,
                                                                             unsigned) {
  return CountBlocks(SIMCUDA_ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags), blocks, function, threads,
                     dynamic_shared_bytes);
}

SIMCUDA_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* threads, CUfunction handle,
                                                         CUoccupancyB2DSize shared_bytes_of, std::size_t shared_bytes,
                                                         int limit) {
  return WithFunction(SIMCUDA_ENTRY(cuOccupancyMaxPotentialBlockSize), handle,
                      [&](const Card& card, Function& function) {
                        if (grid == nullptr || threads == nullptr) return CUDA_ERROR_INVALID_VALUE;
                        int most = 0;
                        *grid = *threads = 0;
                        for (int size = limit > 0 ? std::min(limit, 1024) : 1024; size > 0; size -= 32) {
                          const std::size_t shared = shared_bytes_of != nullptr ? shared_bytes_of(size) : shared_bytes;
                          const int blocks = BlocksPerMultiprocessor(card, function, size, shared);
                          if (blocks * size <= most) continue;
                          most = blocks * size;
                          *threads = size;
                          *grid = blocks * card.multiprocessors;
                        }
                        return CUDA_SUCCESS;
                      });
}

SIMCUDA_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction handle, int blocks,
                                                                int) {
  return WithFunction(
      SIMCUDA_ENTRY(cuOccupancyAvailableDynamicSMemPerBlock), handle, [&](const Card& card, Function& function) {
        if (bytes == nullptr || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
        const int each =
            card.shared_bytes_per_multiprocessor / blocks - (card.major >= 8 ? 1024 : 0) - function.static_shared_bytes;
        *bytes = static_cast<std::size_t>(std::clamp(each, 0, card.shared_bytes_per_block_optin));
        return CUDA_SUCCESS;
      });
}

SIMCUDA_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction handle, const CUlaunchConfig*) {
  return WithFunction(SIMCUDA_ENTRY(cuOccupancyMaxPotentialClusterSize), handle, [&](const Card& card, Function&) {
    if (blocks == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *blocks = card.major >= 9 ? kPortableClusterBlocks : 1;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
  return WithFunction(SIMCUDA_ENTRY(cuOccupancyMaxActiveClusters), handle, [&](const Card& card, Function& function) {
    if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t cluster_blocks = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
      const auto& size = config->attrs[i].value.clusterDim;
      cluster_blocks = std::max<std::uint64_t>(BlocksOf(size.x, size.y, size.z), 1);
    }
    const auto threads = static_cast<int>(BlocksOf(config->blockDimX, config->blockDimY, config->blockDimZ));
    const int blocks = BlocksPerMultiprocessor(card, function, threads, config->sharedMemBytes);
    *clusters = static_cast<int>(static_cast<std::uint64_t>(blocks * card.multiprocessors) / cluster_blocks);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState* state) {
  return Enter(SIMCUDA_ENTRY(cuLinkCreate), [&](Call&) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = reinterpret_cast<CUlinkState>(new LinkedImage);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuLinkAddData(CUlinkState state, CUjitInputType, void* data, std::size_t, const char*, unsigned,
                                      CUjit_option*, void**) {
  return Enter(SIMCUDA_ENTRY(cuLinkAddData),
               [&](Call&) { return state == nullptr || data == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}

SIMCUDA_EXPORT CUresult cuLinkAddFile(CUlinkState state, CUjitInputType, const char* path, unsigned, CUjit_option*,
                                      void**) {
  return Enter(SIMCUDA_ENTRY(cuLinkAddFile),
               [&](Call&) { return state == nullptr || path == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}

// The image belongs to the link state.
SIMCUDA_EXPORT CUresult cuLinkComplete(CUlinkState state, void** image, std::size_t* size_bytes) {
  return Enter(SIMCUDA_ENTRY(cuLinkComplete), [&](Call&) {
    if (state == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *image = reinterpret_cast<LinkedImage*>(state)->bytes;
    if (size_bytes != nullptr) *size_bytes = sizeof(LinkedImage::bytes);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  return Enter(SIMCUDA_ENTRY(cuLinkDestroy), [&](Call&) {
    delete reinterpret_cast<LinkedImage*>(state);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                                               const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                               const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return EncodeTensorMap(SIMCUDA_ENTRY(cuTensorMapEncodeTiled), map, address);
}

SIMCUDA_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                                                const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                                cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
                                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return EncodeTensorMap(SIMCUDA_ENTRY(cuTensorMapEncodeIm2col), map, address);
}

SIMCUDA_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return EncodeTensorMap(SIMCUDA_ENTRY(cuTensorMapReplaceAddress), map, address);
}

SIMCUDA_EXPORT CUresult cuProfilerStart() {
  return Enter(SIMCUDA_ENTRY(cuProfilerStart), [](Call&) { return CUDA_SUCCESS; });
}

SIMCUDA_EXPORT CUresult cuProfilerStop() {
  return Enter(SIMCUDA_ENTRY(cuProfilerStop), [](Call&) { return CUDA_SUCCESS; });
}

}  // namespace stalloc::simcuda
