// Entry points of arrays. Copies of arrays are in api_copy_rows.cpp.
#include "call.h"

namespace stalloc::simcuda {
namespace {

std::uint64_t ElementBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 2;
  }
}

CUresult CreateArray(Call& call, CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* description) {
  if (array == nullptr || description == nullptr || description->Width == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto extent = [](std::size_t size) { return std::max<std::size_t>(size, 1); };
  Array made;
  made.row_bytes = ElementBytes(description->Format) * description->NumChannels * description->Width;
  made.rows = extent(description->Height);
  made.device = call.context->device;
  std::uint64_t size_bytes = ElementBytes(description->Format) * description->NumChannels;
  for (const std::size_t size : {description->Width, extent(description->Height), extent(description->Depth)}) {
    if (__builtin_mul_overflow(size_bytes, size, &size_bytes)) return CUDA_ERROR_INVALID_VALUE;
  }
  made.size_bytes = size_bytes;
  PhysicalPtr physical = call.machine.FindDevice(made.device)->memory->Allocate(size_bytes);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  made.mapped_bytes = physical->size_bytes;
  made.begin = call.machine.space.Reserve(made.mapped_bytes, kPageBytes, 0);
  if (made.begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping{made.mapped_bytes, std::move(physical), Mapping::Kind::kMalloc};
  mapping.SetAccess(made.device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  call.machine.space.Map(made.begin, std::move(mapping));
  *array = call.machine.arrays.Add(std::make_shared<Array>(made));
  return CUDA_SUCCESS;
}

CUresult DestroyArray(Call& call, CUarray handle) {
  const std::shared_ptr<Array> array = call.machine.arrays.Remove(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.machine.scheduler.WaitForDevice(array->device);
  call.machine.space.Unmap(array->begin, array->mapped_bytes, Mapping::Kind::kMalloc);
  call.machine.space.Free(array->begin, array->mapped_bytes);
  return CUDA_SUCCESS;
}

CUresult NotSimulated(EntryPoint entry) {
  return Enter(entry, [](Call&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* description) {
  return Enter(SIMCUDA_ENTRY(cuArrayCreate), [&](Call& call) {
    if (description == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full{};
    full.Width = description->Width;
    full.Height = description->Height;
    full.Format = description->Format;
    full.NumChannels = description->NumChannels;
    return CreateArray(call, array, &full);
  });
}

SIMCUDA_EXPORT CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* description) {
  return Enter(SIMCUDA_ENTRY(cuArray3DCreate), [&](Call& call) { return CreateArray(call, array, description); });
}

SIMCUDA_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return Enter(SIMCUDA_ENTRY(cuArrayDestroy), [&](Call& call) { return DestroyArray(call, array); });
}

SIMCUDA_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned) {
  return NotSimulated(SIMCUDA_ENTRY(cuMipmappedArrayCreate));
}

}  // namespace stalloc::simcuda
