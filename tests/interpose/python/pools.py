"""A pool with an allocator of its own has its requests served by that; one without is served as everything else."""
import ctypes
import gc

import torch

c = torch._C
asked, returned = [], []
arena = ctypes.create_string_buffer(64 << 20)


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def allocate(size, device, stream):
    asked.append(size)
    return ctypes.addressof(arena) + sum(asked[:-1])


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
def free(address, size, device, stream):
    returned.append(size)


functions = [ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, free)]
allocator = c._cuda_customAllocator(*functions)
c.free(c.allocate(512))
pool, plain = torch.cuda.memory.MemPool(allocator), torch.cuda.memory.MemPool()
assert pool.id != plain.id

c._cuda_beginAllocateToPool(0, pool.id)
blocks = [c.allocate(1000) for _ in range(10)]
c._cuda_beginAllocateToPool(0, plain.id)
outside = c.allocate(1 << 20)
c._cuda_endAllocateToPool(0, plain.id)
large = c.allocate(30 << 20)
c._cuda_endAllocateToPool(0, pool.id)
c._cuda_releasePool(0, pool.id)
assert asked == [2 << 20, 30 << 20], asked
begin = ctypes.addressof(arena)
assert all(begin <= block < begin + len(arena) for block in blocks + [large])
assert len(set(blocks)) == 10 and all(abs(a - b) >= 1000 for a in blocks for b in blocks if a != b)
c.free(outside)

# What is freed is used again; a block may outlive its pool.
for block in blocks:
    c.free(block)
c._cuda_beginAllocateToPool(0, pool.id)
again = c.allocate(2 << 20)
c._cuda_endAllocateToPool(0, pool.id)
assert again == begin and len(asked) == 2
elsewhere = c.allocate(1000)
assert not begin <= elsewhere < begin + len(arena)
del pool
gc.collect()
c.free(again)
assert returned == []
c.free(large)
assert sorted(returned) == [2 << 20, 30 << 20], returned
c.free(elsewhere)
print("ok")
