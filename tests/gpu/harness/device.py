"""The device as the driver sees it, asked through NVML and never through CUDA.

NVML answers with the memory that the kernel driver has handed out, so nothing preloaded into a program can colour it:
this is the "outside" of every memory figure here. Only libnvidia-ml.so.1 is needed (ctypes, no Python package). Where
it is missing, used_bytes() returns None and the callers leave their outside columns empty.
"""

import ctypes
import os
import threading
import time

SKIPPED = 77  # exit code that ctest reads as "skipped"


class _MemoryInfo(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Nvml:
    """Used and total bytes of the `ordinal`-th device that CUDA_VISIBLE_DEVICES leaves visible."""

    def __init__(self, ordinal=0):
        self._library = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() != 0:
            return
        visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v.strip()]
        name = visible[ordinal] if ordinal < len(visible) else str(ordinal)
        if name.isdigit():
            status = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(self._handle))
        else:
            status = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self._handle))
        if status == 0:
            self._library = library

    def _memory(self):
        info = _MemoryInfo()
        if self._library is None or self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(info)) != 0:
            return None
        return info

    def used_bytes(self):
        info = self._memory()
        return info.used if info else None

    def free_bytes(self):
        info = self._memory()
        return info.free if info else None

    def total_bytes(self):
        info = self._memory()
        return info.total if info else None

    def name(self):
        text = ctypes.create_string_buffer(96)
        if self._library is None or self._library.nvmlDeviceGetName(self._handle, text, ctypes.c_uint(len(text))) != 0:
            return None
        return text.value.decode()

    def driver_version(self):
        text = ctypes.create_string_buffer(96)
        if self._library is None or self._library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) != 0:
            return None
        return text.value.decode()


def describe():
    """The machine in a few words, for the head of a table: the GPU, its driver, the processor's cores."""
    nvml = Nvml()
    gpu = nvml.name()
    if gpu is None:
        return f"no GPU, {os.cpu_count()} cores"
    return (
        f"{gpu} ({(nvml.total_bytes() or 0) / 2**30:.0f} GiB, driver {nvml.driver_version()}), {os.cpu_count()} cores"
    )


class Sampler:
    """A background thread that keeps the highest used_bytes() it saw, every `interval_s` seconds.

    Use as a context manager around a child's life. Memory that is held for less than the interval may be missed; an
    allocator's reserve is held for whole steps.
    """

    def __init__(self, devices, interval_s=0.005):
        self._devices = list(devices)
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_bytes = [None] * len(self._devices)
        self.samples = 0

    def _run(self):
        while not self._stop.is_set():
            for i, device in enumerate(self._devices):
                used = device.used_bytes()
                if used is not None and (self.peak_bytes[i] is None or used > self.peak_bytes[i]):
                    self.peak_bytes[i] = used
            self.samples += 1
            self._stop.wait(self._interval_s)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def wait_until_idle(device, idle_bytes, slack_bytes=64 << 20, timeout_s=10.0):
    """Waits until the device holds no more than `idle_bytes` (+ slack): the last process's memory is really gone."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        used = device.used_bytes()
        if used is None or used <= idle_bytes + slack_bytes:
            return True
        time.sleep(0.02)
    return False


def cuda_device_count():
    """Number of CUDA devices, or 0 with no driver. Initialises the driver in this process but makes no context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def why_not(devices=1, modules=()):
    """None if this machine can run a GPU harness, otherwise the reason, for a message and exit code 77."""
    found = cuda_device_count()
    if found < devices:
        return f"needs {devices} CUDA device(s), found {found}"
    import importlib.util

    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"needs the Python package {module}"
    return None
