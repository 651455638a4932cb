// Entry points that launch kernels, and memory operations of streams. Compiled twice: see per_thread_default_stream.h.
#include "call.h"
#include "per_thread_default_stream.h"
#include "work.h"

namespace stalloc::simcuda {
namespace {

CUresult LaunchOn(EntryPoint entry, CUfunction handle, const LaunchShape& shape, CUstream stream_handle) {
  return EnterStream(entry, StreamOrDefault(stream_handle), [&](Call& call, Stream& stream) {
    std::shared_ptr<Function> function = call.machine.functions.Find(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Card& card = call.machine.card();
    if (const CUresult error = CheckShape(card, *function, shape)) return error;
    return Submit(call, stream, std::make_shared<Launch>(card, std::move(function), shape));
  });
}

CUresult WriteValue(EntryPoint entry, CUstream handle, CUdeviceptr address, std::uint64_t value,
                    std::size_t size_bytes) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (address % size_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    return Submit(call, stream, std::make_shared<WriteWord>(address, value, size_bytes));
  });
}

// The value is taken to have come: kernels, which would write it, write nothing.
CUresult WaitValue(EntryPoint entry, CUstream handle, CUdeviceptr address, std::size_t size_bytes) {
  return EnterStream(entry, StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (address % size_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    return Submit(call, stream, std::make_shared<MemoryOperation>());
  });
}

struct Callback {
  CUstreamCallback function;
  CUstream stream;
  void* argument;
};

}  // namespace

SIMCUDA_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                       CUstream stream, void**, void**) {
  return LaunchOn(SIMCUDA_ENTRY(cuLaunchKernel), function,
                  {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream);
}

SIMCUDA_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes};
  return LaunchOn(SIMCUDA_ENTRY(cuLaunchKernelEx), function, shape, config->hStream);
}

SIMCUDA_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                                  unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                                  unsigned shared_bytes, CUstream stream, void**) {
  return LaunchOn(SIMCUDA_ENTRY(cuLaunchCooperativeKernel), function,
                  {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream);
}

SIMCUDA_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return WriteValue(SIMCUDA_ENTRY(cuStreamWriteValue32), stream, address, value, sizeof(value));
}

SIMCUDA_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return WriteValue(SIMCUDA_ENTRY(cuStreamWriteValue64), stream, address, value, sizeof(value));
}

SIMCUDA_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return WaitValue(SIMCUDA_ENTRY(cuStreamWaitValue32), stream, address, sizeof(value));
}

SIMCUDA_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return WaitValue(SIMCUDA_ENTRY(cuStreamWaitValue64), stream, address, sizeof(value));
}

SIMCUDA_EXPORT CUresult cuStreamBatchMemOp(CUstream handle, unsigned count, CUstreamBatchMemOpParams* operations,
                                           unsigned) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamBatchMemOp), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (operations == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const CUstreamBatchMemOpParams* it = operations; it != operations + count; ++it) {
      WorkPtr work;
      if (it->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
        work = std::make_shared<WriteWord>(it->writeValue.address, it->writeValue.value, sizeof(cuuint32_t));
      else if (it->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
        work = std::make_shared<WriteWord>(it->writeValue.address, it->writeValue.value64, sizeof(cuuint64_t));
      else
        work = std::make_shared<MemoryOperation>();
      if (const CUresult error = Submit(call, stream, std::move(work))) return error;
    }
    return CUDA_SUCCESS;
  });
}

// Unlike a host function it cannot be captured.
SIMCUDA_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* argument,
                                            unsigned flags) {
  return EnterStream(SIMCUDA_ENTRY(cuStreamAddCallback), StreamOrDefault(handle), [&](Call& call, Stream& stream) {
    if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream.capture != nullptr) {
      stream.capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    auto* callback = new Callback{function, handle, argument};
    const auto run = [](void* data) {
      const std::unique_ptr<Callback> owned(static_cast<Callback*>(data));
      owned->function(owned->stream, CUDA_SUCCESS, owned->argument);
    };
    return Submit(call, stream, std::make_shared<HostFunction>(run, callback));
  });
}

// The ABI of CUDA 8 and 9, which differs in nothing here.
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamWriteValue32)(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                                              unsigned) {
  return WriteValue(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamWriteValue32)), stream, address, value, sizeof(value));
}

SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamWriteValue64)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                                              unsigned) {
  return WriteValue(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamWriteValue64)), stream, address, value, sizeof(value));
}

SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamWaitValue32)(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                                             unsigned) {
  return WaitValue(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamWaitValue32)), stream, address, sizeof(value));
}

SIMCUDA_EXPORT CUresult __CUDA_API_PTSZ(cuStreamWaitValue64)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                                             unsigned) {
  return WaitValue(SIMCUDA_ENTRY(__CUDA_API_PTSZ(cuStreamWaitValue64)), stream, address, sizeof(value));
}

}  // namespace stalloc::simcuda
