// Memory that a thread takes from elsewhere for a while: from an allocator of the program's own (PyTorch's MemPool of a
// CUDAPluggableAllocator), or from the driver, so that other processes can be given it.
//
// Any thread. Requests are cut out of segments, as PyTorch's own allocator does, since such allocators are slow and
// round up to pages. A block is used again only in the order of the stream that it was requested on. The lock is one a
// pool, and is held while the program's allocator is asked, as PyTorch holds its own. Throws nothing.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>

namespace stalloc::runtime {

class ProgramPool;

// As PyTorch's CUDAPluggableAllocator has them.
using PoolAllocateFunction = void*(std::ptrdiff_t size_bytes, int device, CUstream stream);
using PoolFreeFunction = void(void* pointer, std::size_t size_bytes, int device, CUstream stream);

// A pool of these functions' memory; both null: of the driver's own. Null for want of memory.
ProgramPool* MakePool(PoolAllocateFunction* allocate, PoolFreeFunction* free) noexcept;

// The calling thread's stream-ordered requests go there, until it leaves; scopes nest.
void EnterPool(ProgramPool* pool) noexcept;
void LeavePool() noexcept;

// Nothing is requested there any more: its segments go back once its last block is freed.
void EndPool(ProgramPool* pool) noexcept;

// Of the calling thread; null: none.
extern constinit thread_local ProgramPool* pool_in_use __attribute__((tls_model("initial-exec")));
// There is a pool, or was one.
inline constinit std::atomic<bool> any_pool{false};

// In the pool in use, on the current device. CUDA_ERROR_OUT_OF_MEMORY: its allocator has none.
CUresult AllocateInPool(CUdeviceptr* address, std::size_t size_bytes, CUstream stream) noexcept;

// False: no block of a pool begins there.
bool FreeInPool(CUdeviceptr address, CUstream stream) noexcept;

}  // namespace stalloc::runtime
