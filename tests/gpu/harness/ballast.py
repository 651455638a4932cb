"""Holds device memory in a process of its own, so that whoever runs beside it has only a fixed budget left.

The budget is the device's own, the same for every allocator, and no allocator's limit setting takes part. Run as a
program: `ballast.py BYTES` takes the memory with plain cuMemAlloc, says "held" and keeps it until its stdin is closed.
"""

import ctypes
import os
import subprocess
import sys


class Ballast:
    """Context manager: leaves about `budget_bytes` of the device free for other processes."""

    def __init__(self, nvml, budget_bytes):
        used, total = nvml.used_bytes(), nvml.total_bytes()
        self._bytes = total - used - budget_bytes
        self._process = None

    def __enter__(self):
        command = [sys.executable, os.path.abspath(__file__), str(self._bytes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self._process.stdout.readline().strip()
        if answer != "held":
            raise RuntimeError(f"ballast of {self._bytes} bytes: {answer or 'died'}")
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(timeout=30)


def hold(size_bytes):
    driver = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    calls = [
        lambda: driver.cuInit(0),
        lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        lambda: driver.cuCtxSetCurrent(context),
        # The context takes some of the device too; it counts as ballast.
        lambda: driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size_bytes - (700 << 20))),
    ]
    for number, call in enumerate(calls):
        status = call()
        if status != 0:
            print(f"call {number} answered {status}", flush=True)
            return 1
    print("held", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(hold(int(sys.argv[1])))
