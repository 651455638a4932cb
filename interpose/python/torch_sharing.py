"""Sending CUDA tensors to other processes on PyTorch's cudaMallocAsync backend, which refuses to.

What is sent is moved, once, to memory of the driver's own cudaMalloc, which has IPC handles: from then on all tensors of
this storage, here and there, share it. Takes the place of what PyTorch has below reduce_tensor and rebuild_cuda_tensor,
in both processes. A file in shared memory has one byte a message; the receiver clears it when its storage ends, and
until then the sender keeps the memory.
"""
import ctypes
import mmap
import os
import threading
import weakref

_SLOTS = 1 << 16
_FOLDER = "/dev/shm"

_lock = threading.RLock()
_pool = None  # of the driver's memory
_kept = {}  # slot of a message: the storage, until the receiver has done with it
_mapped = {}  # IPC handle: the address at which it is open here, and by how many storages


class _Handle(ctypes.Structure):  # passed by value
    _fields_ = [("bytes", ctypes.c_byte * 64)]


class _Slots:
    """This process's file of messages under way."""

    def __init__(self):
        self.process = os.getpid()
        self.path = f"{_FOLDER}/stalloc-ipc-{self.process}-{os.urandom(4).hex()}"
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(file, _SLOTS)
            self.bytes = mmap.mmap(file, _SLOTS)
        finally:
            os.close(file)
        self.next = 0
        weakref.finalize(self, _remove, self.path, self.process)

    def take(self):
        for _ in range(_SLOTS):
            slot, self.next = self.next, (self.next + 1) % _SLOTS
            if slot not in _kept:
                self.bytes[slot] = 1
                return slot
        raise RuntimeError("too many CUDA tensors are on their way to other processes")


_slots = None


def _remove(path, process):
    if os.getpid() == process:
        try:
            os.unlink(path)
        except OSError:
            pass


def _own_slots():
    global _slots
    if _slots is None or _slots.process != os.getpid():
        _slots = _Slots()
        _kept.clear()
    for slot in [slot for slot in _kept if not _slots.bytes[slot]]:
        del _kept[slot]
    return _slots


def _clear(path, slot):
    try:
        with open(path, "r+b", buffering=0) as file:
            file.seek(slot)
            file.write(b"\0")
    except OSError:  # the sender has ended
        pass


def _driver():
    return ctypes.CDLL("libcuda.so.1")


def _check(result, what):
    if result != 0:
        raise RuntimeError(f"{what}: CUDA error {result}")


def _words(storage):
    """The first words of the storage's C++ object, among them its address and what to free."""
    return (ctypes.c_uint64 * 8).from_address(storage._cdata)


def _exchange(one, other):
    """Each storage gets the other's block. Both are of the same size, device and allocator."""
    a, b, here, there = _words(one), _words(other), one.data_ptr(), other.data_ptr()
    places = [at for at in range(8) if a[at] == here and b[at] == there]
    if len(places) != 2:  # the address, and what is to be freed
        raise RuntimeError("this version's storages are laid out otherwise")
    for at in places:
        a[at], b[at] = b[at], a[at]
    if one.data_ptr() != there or other.data_ptr() != here:
        raise RuntimeError("this version's storages are laid out otherwise")


def _move(torch, storage):
    """To memory that has an IPC handle, unless it is there already."""
    global _pool
    if not library().stalloc_owns(storage.data_ptr()):
        return
    if _pool is None:
        _pool = library().stalloc_pool_make(None, None)
    library().stalloc_pool_enter(_pool)
    try:
        block = torch.empty(storage.nbytes(), dtype=torch.uint8, device=storage.device).untyped_storage()
    finally:
        library().stalloc_pool_leave()
    block.copy_(storage)
    torch.cuda.synchronize()  # whoever uses the old block still
    _exchange(storage, block)


def _handle_of(address):
    """The IPC handle of what the driver allocated there, and where in it the address lies."""
    base, size, handle = ctypes.c_uint64(), ctypes.c_size_t(), _Handle()
    address = ctypes.c_uint64(address)
    _check(_driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), address), "cuMemGetAddressRange")
    _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), base), "cuIpcGetMemHandle")
    return bytes(handle), address.value - base.value


def _share(torch):
    def share(storage):
        if not storage.nbytes():
            return (storage.device.index, None, 0, 0, b"", 0, b"", False)
        with _lock, torch.cuda.device(storage.device):
            torch.cuda.current_stream().synchronize()
            slots = _own_slots()
            _move(torch, storage)
            handle, offset = _handle_of(storage.data_ptr())
            slot = slots.take()
            _kept[slot] = storage
        return (storage.device.index, handle, storage.nbytes(), offset, slots.path.encode(), slot, b"", False)

    return share


class _Mapping:
    """A block of another process. PyTorch keeps it for as long as a storage lies in it."""

    def __init__(self, handle, offset_bytes, size_bytes, counter, slot):
        self.handle, self.counter, self.slot = handle, counter, slot
        with _lock:
            address, users = _mapped.get(handle, (None, 0))
            if address is None:
                opened = ctypes.c_uint64()
                of = _Handle.from_buffer_copy(handle)
                _check(_driver().cuIpcOpenMemHandle_v2(ctypes.byref(opened), of, 1), "cuIpcOpenMemHandle")
                address = opened.value
            _mapped[handle] = (address, users + 1)
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,), "typestr": "|u1", "data": (address + offset_bytes, False), "version": 2}  # fmt: skip

    def __del__(self):
        with _lock:
            address, users = _mapped.pop(self.handle, (None, 0))
            if users > 1:
                _mapped[self.handle] = (address, users - 1)
            elif address is not None:
                _driver().cuCtxSynchronize()  # work that still uses it
                _driver().cuIpcCloseMemHandle(ctypes.c_uint64(address))
        _clear(self.counter, self.slot)


def install(module):
    torch = module.torch
    storages = torch.UntypedStorage
    opened, released = storages._new_shared_cuda, storages._release_ipc_counter_cuda

    def new_shared(cls, device, handle, size_bytes, offset_bytes, counter, slot, event, event_needed):
        if not counter.startswith(_FOLDER.encode()):
            return opened(device, handle, size_bytes, offset_bytes, counter, slot, event, event_needed)
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # makes the context, where nothing has been done yet
            mapping = _Mapping(handle, offset_bytes, size_bytes, counter.decode(), slot)
            return torch.as_tensor(mapping, device=torch.device("cuda", device)).untyped_storage()

    def release_counter(counter, slot, *device, **named):
        if not counter.startswith(_FOLDER.encode()):
            return released(counter, slot, *device, **named)
        _clear(counter.decode(), slot)

    def collect(old):
        def ipc_collect():
            with _lock:
                if _slots is not None:
                    _own_slots()
            return old()

        return ipc_collect

    replace(torch._C, "_cuda_ipc_collect", collect)
    storages._share_cuda_ = _share(torch)
    storages._new_shared_cuda = classmethod(new_shared)
    storages._release_ipc_counter_cuda = staticmethod(release_counter)
