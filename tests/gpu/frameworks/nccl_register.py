"""NCCL with buffers that the user registers: memory that PyTorch allocated and memory of ncclMemAlloc, one after the
other, in all-reduce, all-gather and a ring of sends, on several GPUs. Started by torchrun.

NCCL is called as C programs call it, by ctypes on the library that PyTorch has loaded; torch.distributed (gloo) only
hands the identifier round. Prints the calls' status codes and whether the sums are right, which must be as without the
shim.
"""

import ctypes
import os

import torch
import torch.distributed as dist

INT32, SUM = 2, 0
COUNTS = [256, 1_000_003, 16 << 20]  # of 32-bit integers


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Memory:
    """A view of device memory that somebody else allocated."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<i4", "data": (address, False), "version": 3}


def load_nccl():
    with open("/proc/self/maps") as file:
        loaded = [line.split()[-1] for line in file if "libnccl" in line]
    return ctypes.CDLL(loaded[0] if loaded else "libnccl.so.2")


def check(status, call):
    if status != 0:
        raise RuntimeError(f"{call}: {status}")


def exchange(nccl, communicator, rank, world, send, receive):
    """True if every element of every exchange is right."""
    count, right = send.numel(), True
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    ends = ctypes.c_void_p(send.data_ptr()), ctypes.c_void_p(receive.data_ptr())
    base = torch.arange(count, dtype=torch.int32, device="cuda")
    for round_ in range(4):
        send.copy_(base + (rank + round_))
        receive.fill_(-1)
        check(nccl.ncclAllReduce(*ends, ctypes.c_size_t(count), INT32, SUM, communicator, stream), "all-reduce")
        expected = base * world + sum(range(world)) + world * round_
        right = right and bool(torch.equal(receive, expected))
        receive.fill_(-1)
        check(nccl.ncclGroupStart(), "group")
        check(nccl.ncclSend(ends[0], ctypes.c_size_t(count), INT32, (rank + 1) % world, communicator, stream), "send")
        check(nccl.ncclRecv(ends[1], ctypes.c_size_t(count), INT32, (rank - 1) % world, communicator, stream), "recv")
        check(nccl.ncclGroupEnd(), "group")
        right = right and bool(torch.equal(receive, base + ((rank - 1) % world + round_)))
        part = count // world
        receive.fill_(-1)
        check(nccl.ncclAllGather(*ends, ctypes.c_size_t(part), INT32, communicator, stream), "all-gather")
        for other in range(world):
            theirs = receive[other * part : (other + 1) * part]
            right = right and bool(torch.equal(theirs, base[:part] + (other + round_)))
    return right


def with_registration(nccl, communicator, rank, world, buffers):
    handles, statuses = [], []
    for buffer in buffers:
        handle = ctypes.c_void_p()
        memory, size = ctypes.c_void_p(buffer.data_ptr()), ctypes.c_size_t(buffer.numel() * 4)
        statuses.append(nccl.ncclCommRegister(communicator, memory, size, ctypes.byref(handle)))
        handles.append(handle)
    right = exchange(nccl, communicator, rank, world, *buffers)
    torch.cuda.synchronize()
    for handle in handles:
        if handle.value:
            statuses.append(nccl.ncclCommDeregister(communicator, handle))
    return f"{'right' if right else 'wrong'}_{'_'.join(map(str, statuses))}"


def main():
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(local)
    torch.zeros(1, device="cuda")
    dist.init_process_group("gloo")
    nccl = load_nccl()
    identifier = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(identifier)), "identifier")
    shared = [bytes(identifier)]
    dist.broadcast_object_list(shared, src=0)
    identifier = UniqueId.from_buffer_copy(shared[0])
    communicator = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    check(nccl.ncclCommInitRank(ctypes.byref(communicator), world, identifier, rank), "communicator")
    answers = {}
    for count in COUNTS:
        torchs = [torch.empty(count, dtype=torch.int32, device="cuda") for _ in range(2)]
        answers[f"torch_{count}"] = with_registration(nccl, communicator, rank, world, torchs)
        del torchs
        addresses = [ctypes.c_void_p(), ctypes.c_void_p()]
        for address in addresses:
            check(nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(count * 4)), "ncclMemAlloc")
        own = [torch.as_tensor(Memory(address.value, count), device="cuda") for address in addresses]
        answers[f"ncclMemAlloc_{count}"] = with_registration(nccl, communicator, rank, world, own)
        del own
        for address in addresses:
            check(nccl.ncclMemFree(address), "ncclMemFree")
    check(nccl.ncclCommDestroy(communicator), "destroy")
    everybody = [None] * world
    dist.all_gather_object(everybody, answers)
    if rank == 0:
        for name in answers:
            print(f"result {name} {','.join(sorted({given[name] for given in everybody}))}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
