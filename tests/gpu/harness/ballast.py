"""Holds device memory in a process of its own, so that whoever runs beside it has only a fixed budget left.

The budget is the device's own, the same for every allocator, and no allocator's limit setting takes part. Run as a
program, it makes a context and says "held"; then it takes as many bytes with plain cuMemAlloc as each line on stdin
says, answering "held" every time, and keeps them until its stdin is closed.
"""

import ctypes
import os
import subprocess
import sys


class Ballast:
    """Context manager: leaves about `budget_bytes` of the device free for other processes.

    `left_bytes` is what NVML then says is free; it may be a few MiB off, as memory is handed out in pages of 2 MiB.
    """

    def __init__(self, nvml, budget_bytes):
        self._nvml, self._budget_bytes = nvml, budget_bytes
        self._process = None
        self.left_bytes = None

    def __enter__(self):
        command = [sys.executable, os.path.abspath(__file__)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._expect_held("its context")
            # Only now, as the context itself takes some of the device.
            size_bytes = self._nvml.free_bytes() - self._budget_bytes
            if size_bytes <= 0:
                raise RuntimeError(f"ballast: no {self._budget_bytes} bytes are free on the device")
            self._process.stdin.write(f"{size_bytes}\n")
            self._process.stdin.flush()
            self._expect_held(f"{size_bytes} bytes")
        except Exception:
            self.__exit__()
            raise
        self.left_bytes = self._nvml.free_bytes()
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def _expect_held(self, what):
        answer = self._process.stdout.readline().strip()
        if answer != "held":
            raise RuntimeError(f"ballast of {what}: {answer or 'died'}")


def hold():
    driver = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    take = lambda size: driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    for name, call in (
        ("cuInit", lambda: driver.cuInit(0)),
        ("cuDevicePrimaryCtxRetain", lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)),
        ("cuCtxSetCurrent", lambda: driver.cuCtxSetCurrent(context)),
        ("cuMemAlloc", lambda: take(1 << 20)),  # whatever a first allocation brings along
    ):
        status = call()
        if status != 0:
            print(f"{name} answered {status}", flush=True)
            return 1
    print("held", flush=True)
    for line in sys.stdin:
        status = take(int(line))
        print("held" if status == 0 else f"cuMemAlloc answered {status}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(hold())
