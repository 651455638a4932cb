// Functions that take device memory which the allocator does not serve: physical memory for the program's own mappings,
// managed memory, arrays, code, graphs. They must not fail because pages lie idle here.
#include "retry.h"

#include "real_symbols.h"

using namespace stalloc::interpose;

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  const bool on_device = properties != nullptr && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return WithRetry({Entry::k_cuMemCreate, size, on_device ? properties->location.id : -1},
                   [&] { return Forward<Entry::k_cuMemCreate>(handle, size, properties, flags); });
}

CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size, unsigned int flags) {
  return WithRetry({Entry::k_cuMemAllocManaged, size},
                   [&] { return Forward<Entry::k_cuMemAllocManaged>(address, size, flags); });
}

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* description) {
  return WithRetry({Entry::k_cuArrayCreate_v2}, [&] { return Forward<Entry::k_cuArrayCreate_v2>(array, description); });
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* description) {
  return WithRetry({Entry::k_cuArray3DCreate_v2},
                   [&] { return Forward<Entry::k_cuArray3DCreate_v2>(array, description); });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* description,
                                unsigned int level_count) {
  return WithRetry({Entry::k_cuMipmappedArrayCreate},
                   [&] { return Forward<Entry::k_cuMipmappedArrayCreate>(array, description, level_count); });
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return WithRetry({Entry::k_cuModuleLoad}, [&] { return Forward<Entry::k_cuModuleLoad>(module, path); });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return WithRetry({Entry::k_cuModuleLoadData}, [&] { return Forward<Entry::k_cuModuleLoadData>(module, image); });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int option_count, CUjit_option* options,
                            void** values) {
  return WithRetry({Entry::k_cuModuleLoadDataEx},
                   [&] { return Forward<Entry::k_cuModuleLoadDataEx>(module, image, option_count, options, values); });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return WithRetry({Entry::k_cuModuleLoadFatBinary},
                   [&] { return Forward<Entry::k_cuModuleLoadFatBinary>(module, image); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options, void** jit_values,
                           unsigned int jit_count, CUlibraryOption* options, void** values, unsigned int count) {
  return WithRetry({Entry::k_cuLibraryLoadData}, [&] {
    return Forward<Entry::k_cuLibraryLoadData>(library, code, jit_options, jit_values, jit_count, options, values,
                                               count);
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options, void** jit_values,
                               unsigned int jit_count, CUlibraryOption* options, void** values, unsigned int count) {
  return WithRetry({Entry::k_cuLibraryLoadFromFile}, [&] {
    return Forward<Entry::k_cuLibraryLoadFromFile>(library, path, jit_options, jit_values, jit_count, options, values,
                                                   count);
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return WithRetry({Entry::k_cuGraphInstantiateWithFlags},
                   [&] { return Forward<Entry::k_cuGraphInstantiateWithFlags>(executable, graph, flags); });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return WithRetry({Entry::k_cuGraphInstantiateWithParams},
                   [&] { return Forward<Entry::k_cuGraphInstantiateWithParams>(executable, graph, params); });
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return WithRetry({Entry::k_cuGraphInstantiateWithParams_ptsz},
                   [&] { return Forward<Entry::k_cuGraphInstantiateWithParams_ptsz>(executable, graph, params); });
}
