"""What PyTorch's extension module has, and refuses on this backend."""
import ctypes
import os

_runtime = ctypes.CDLL("libcudart.so.13")


def _cuda_getAllocatorBackend():
    return "cudaMallocAsync"


def allocate(size):
    """As a tensor is made."""
    address = ctypes.c_void_p()
    assert _runtime.cudaMallocAsync(ctypes.byref(address), ctypes.c_size_t(size), None) == 0
    return address.value


def free(address):
    assert _runtime.cudaFreeAsync(ctypes.c_void_p(address), None) == 0


def _refused(*args):
    raise RuntimeError("cudaMallocAsync does not yet support it")


if os.environ.get("FAKE_TORCH") != "bare":
    _cuda_record_memory_history = _cuda_record_memory_history_legacy = _cuda_memorySnapshot = _refused
    _cuda_attach_out_of_memory_observer = _cuda_beginAllocateToPool = _cuda_endAllocateToPool = _refused
    _cuda_releasePool = _refused
    settings = []
    _accelerator_setAllocatorSettings = settings.append

    def _cuda_isHistoryEnabled():
        return False

    def _cuda_memoryStats(device):
        figures = ("allocation", "active", "allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "segment")
        empty = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
        stats = {of: {pool: dict(empty) for pool in ("all", "large_pool", "small_pool")} for of in figures}
        return dict(stats, num_ooms=0, num_device_alloc=0, num_device_free=0)

    def _cuda_resetAccumulatedMemoryStats(device):
        pass

    def _cuda_customAllocator(allocate, free):
        return object()

    class _MemPool:
        def __init__(self, *args):
            _refused()
