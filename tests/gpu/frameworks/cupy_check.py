"""CuPy over its own pool, over plain cudaMalloc (set_allocator(None)) and over cudaMallocAsync (malloc_async)."""

import hashlib

import cupy


def work():
    """Arrays of changing size, freed out of order; integer arithmetic, so that the result is one exact number."""
    digest, kept = hashlib.sha256(), []
    for i in range(60):
        a = cupy.arange(200_000 + 7919 * (i % 7), dtype=cupy.int64)
        b = cupy.sort((a * 2654435761 + i) % 1_000_003)
        kept.append(b[::2].copy())
        if i % 3 == 2:
            digest.update(cupy.asnumpy(kept.pop(len(kept) // 2)).tobytes())
        del a, b
    x = cupy.arange(1 << 20, dtype=cupy.float32).reshape(1024, 1024) % 17
    digest.update(cupy.asnumpy(x @ x.T).tobytes())
    return digest.hexdigest()[:16]


def main():
    print(f"result pool {work()}")
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.set_allocator(None)
    print(f"result no_pool {work()}")
    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    print(f"result malloc_async {work()}")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        print(f"result side_stream {work()}")
        stream.synchronize()


if __name__ == "__main__":
    main()
