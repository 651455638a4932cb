"""Numba's own allocations: one cuMemAlloc an array, no pool above it."""

import hashlib
import sys

import numpy as np

if not hasattr(np, "row_stack"):  # NumPy 2.4 has dropped the name that numba-cuda still asks for
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def mix(out, a, b, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * factor + b[i]


def main():
    count, rounds = (300, 3) if "--tiny" in sys.argv else (1 << 20, 50)
    digest = hashlib.sha256()
    stream = cuda.stream()
    for i in range(rounds):
        a = cuda.to_device(np.arange(count + i * 64, dtype=np.int64), stream=stream)
        b = cuda.to_device(np.full(count + i * 64, i, dtype=np.int64), stream=stream)
        out = cuda.device_array(count + i * 64, dtype=np.int64, stream=stream)
        mix[(out.size + 255) // 256, 256, stream](out, a, b, i + 1)
        del a, b
        digest.update(out.copy_to_host(stream=stream).tobytes())
        stream.synchronize()
    free, total = cuda.current_context().get_memory_info()
    print(f"result numba {digest.hexdigest()[:16]}_memory_info_{0 < free <= total}")


if __name__ == "__main__":
    main()
