"""PyTorch's features one after another, each reduced to a value that must not depend on the allocator.

Prints `result NAME VALUE` lines (compared with a run without the shim) and `info NAME VALUE` lines (not compared). With
names as arguments, runs only those. A feature that raises reports the kind of exception as its value, so that a native
refusal and ours can be told apart from a wrong answer.
"""

import hashlib
import os
import statistics
import sys
import time
import traceback

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.nn.functional as F
from torch import nn

MIB = 1 << 20


def bits(*tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def small_model():
    torch.manual_seed(7)
    with torch.device("cuda"):
        return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 10))


def train(model, steps=30, call=None, times=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator("cuda").manual_seed(3)
    call, losses = call or model, []
    for _ in range(steps):
        if times is not None:
            torch.cuda.synchronize()
            times.append(time.perf_counter())
        x = torch.randn(4096, 512, generator=generator, device="cuda")
        y = torch.randint(10, (4096,), generator=generator, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return torch.stack(losses)


def trained(model, call=None):
    """The bits of a training, and the median of its later steps' times."""
    times = []
    losses = train(model, 60, call, times)
    later = [b - a for a, b in zip(times[20:], times[21:])]
    print(f"info step_ms {statistics.median(later) * 1e3:.3f}")
    return bits(losses, *model.parameters())


def eager():
    return trained(small_model())


def compiled():
    model = small_model()
    return trained(model, torch.compile(model))


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((32, 32), float(index)).square_()


def _loader(context):
    total = torch.zeros((), device="cuda", dtype=torch.float64)
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=context
    )
    for batch in loader:
        total += batch.to("cuda", non_blocking=True).double().sum()
    return float(total).hex()


def loader_fork():
    torch.zeros(1, device="cuda")  # the parent has a context and served memory when it forks
    return _loader("fork")


def loader_spawn():
    return _loader("spawn")


def record_stream():
    """Each block is freed while a side stream still has to read it; at once, the main stream writes new blocks of the
    same size. A sum that counts a newer value is memory reused too early."""
    side, sums = torch.cuda.Stream(), []
    for i in range(40):
        block = torch.full((8 * MIB,), i + 1, dtype=torch.int32, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            sums.append(block.sum())
        block.record_stream(side)
        del block
        for _ in range(4):
            torch.full((8 * MIB,), -1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    wrong = [i for i, s in enumerate(sums) if int(s) != (i + 1) * 8 * MIB]
    return "ok" if not wrong else f"reused_too_early_at_{wrong[0]}"


def same_stream_order():
    """The same without record_stream and without a side stream: reuse must follow the stream's order."""
    sums = []
    for i in range(40):
        block = torch.full((8 * MIB,), i + 1, dtype=torch.int32, device="cuda")
        torch.cuda._sleep(2_000_000)
        sums.append(block.sum())
        del block
        torch.full((8 * MIB,), -1, dtype=torch.int32, device="cuda")
    return "ok" if all(int(s) == (i + 1) * 8 * MIB for i, s in enumerate(sums)) else "wrong"


def empty_cache():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(32)]
    held = torch.cuda.memory_reserved() - before
    del blocks
    torch.cuda.empty_cache()
    left = torch.cuda.memory_reserved() - before
    print(f"info empty_cache_held_MiB {held // MIB}")
    print(f"info empty_cache_left_MiB {left // MIB}")
    return f"held_{'yes' if held >= 2048 * MIB else 'no'}_given_back_{'yes' if left <= 64 * MIB else 'no'}"


def counters():
    """memory_allocated and its peak move by exactly what is allocated; the peak can be reset."""
    torch.cuda.synchronize()
    start = torch.cuda.memory_allocated()
    blocks = [torch.empty(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(16)]
    up = torch.cuda.memory_allocated() - start
    del blocks
    down = torch.cuda.memory_allocated() - start
    peak = torch.cuda.max_memory_allocated() >= start + up
    torch.cuda.reset_peak_memory_stats()
    reset = torch.cuda.max_memory_allocated() < start + up
    free, total = torch.cuda.mem_get_info()
    sane = 0 < free <= total and torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    return f"up_{up}_down_{down}_peak_{peak}_reset_{reset}_sane_{sane}"


def cudnn_benchmark():
    torch.manual_seed(5)
    x, weight = torch.randn(32, 64, 56, 56, device="cuda"), torch.randn(128, 64, 3, 3, device="cuda")
    reference = F.conv2d(x, weight, padding=1)
    torch.backends.cudnn.benchmark = True
    try:
        for size in (56, 48, 40):
            F.conv2d(x[..., :size, :size], weight, padding=1)
        close = torch.allclose(F.conv2d(x, weight, padding=1), reference, rtol=1e-2, atol=1e-1)
    finally:
        torch.backends.cudnn.benchmark = False
    return "close" if close else "differs"


def sdpa():
    generator = torch.Generator("cuda").manual_seed(11)
    q, k, v = (
        torch.randn(4, 16, 1024, 64, generator=generator, device="cuda", dtype=torch.bfloat16).requires_grad_()
        for _ in range(3)
    )
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.FLASH_ATTENTION]):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        gradients = torch.autograd.grad(y.float().square().sum(), (q, k, v))
    # Flash attention's way back adds up in any order: it is held against the plain one, the way there bit by bit.
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
        plain = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        expected = torch.autograd.grad(plain.float().square().sum(), (q, k, v))
    close = all(torch.allclose(a, b, rtol=0.05, atol=0.05) for a, b in zip(gradients, expected))
    return f"{bits(y)} gradients_{'close' if close else 'differ'}"


def cuda_graph():
    """Captured, replayed, and replayed again after other memory of the same sizes was written: a live graph's own
    memory must not be served to anybody."""
    model = small_model().requires_grad_(False)
    generator = torch.Generator("cuda").manual_seed(13)
    fixed = torch.randn(512, 512, generator=generator, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(fixed)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(fixed)
    graph.replay()
    first = output.clone()
    poison = [torch.full((512, 2048), float("nan"), device="cuda") for _ in range(16)]
    graph.replay()
    same = torch.equal(first, output)
    untouched = all(bool(p.isnan().all()) for p in poison)
    expected = torch.allclose(model(fixed), output)
    return f"{bits(first)}_same_{same}_untouched_{untouched}_expected_{expected}"


def triton_kernel():
    import triton_add

    a = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    return bits(triton_add.add(a, a * 3))


def out_of_memory():
    """The program's own error, and life goes on after it."""
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        return "no_error"
    except torch.OutOfMemoryError:
        pass
    kept = torch.full((1024, 1024), 2.0, device="cuda")
    return f"oom_then_{float(kept.sum()):.0f}"


def threads():
    """Backward passes and allocation from several threads at once, each with a stream of its own."""
    import threading

    results = [None] * 4

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            generator = torch.Generator("cuda").manual_seed(index)
            total = torch.zeros((), device="cuda", dtype=torch.float64)
            for i in range(60):
                x = torch.randint(100, (1024, 64 + (i * 37 + index * 11) % 512), generator=generator, device="cuda")
                y = (x * 3 + index).flip(0)
                total += y.sum()
            torch.cuda.current_stream().synchronize()
            results[index] = int(total)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if None in results:
        raise RuntimeError("a thread failed")
    return "_".join(map(str, results))


def two_devices():
    """Several devices in one process: tensors made, moved and freed on both while both compute."""
    total = []
    for i in range(20):
        blocks = [torch.full((1 << 20,), i + d, dtype=torch.int64, device=f"cuda:{d}") for d in range(2)]
        moved = [blocks[0].to("cuda:1", non_blocking=True), blocks[1].to("cuda:0", non_blocking=True)]
        sums = [(moved[1] * 3 + blocks[0]).sum(), (moved[0] * 5 + blocks[1]).sum()]
        del blocks, moved
        total.append([int(s) for s in sums])
    for d in range(2):
        torch.cuda.synchronize(d)
    right = all(a == (4 * i + 3) << 20 and b == (6 * i + 1) << 20 for i, (a, b) in enumerate(total))
    return "right" if right else f"wrong_{total[0]}"


def peer_copies():
    """Copies between devices of every shape: PyTorch makes them by peer access, by copies that name the devices, or by
    kernels of one that read or write the other's memory. The other device's stream is also used while this one is
    current."""
    wrong = 0
    for i in range(10):
        a = torch.arange(1 << 22, device="cuda:0", dtype=torch.int64).view(2048, 2048) + i
        there, turned = a.to("cuda:1", non_blocking=True), a.t().to("cuda:1")
        back = torch.zeros(2048, 4096, device="cuda:0", dtype=torch.int64)
        back[:, ::2].copy_(turned, non_blocking=True)
        side = torch.cuda.Stream(device="cuda:1")
        side.wait_stream(torch.cuda.current_stream(1))
        with torch.cuda.stream(side):
            beside = there * 2 + turned
        torch.cuda.current_stream(1).wait_stream(side)
        beside.record_stream(torch.cuda.current_stream(1))
        wrong += int((back[:, ::2] != a.t()).sum()) + int(back[:, 1::2].sum())
        wrong += int((beside.to("cuda:0") != a * 2 + a.t()).sum())
        del a, there, turned, back, beside
    return "right" if wrong == 0 else f"wrong_{wrong}"


EVERYDAY = [record_stream, same_stream_order, empty_cache, counters, cudnn_benchmark, sdpa, cuda_graph]
EVERYDAY += [triton_kernel, out_of_memory, threads]
ALL = {f.__name__: f for f in EVERYDAY + [eager, compiled, loader_fork, loader_spawn, two_devices, peer_copies]}


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    if {"two_devices", "peer_copies"} & set(sys.argv) and torch.cuda.device_count() < 2:
        print("skip needs two devices")
        return
    for name in sys.argv[1:] or [f.__name__ for f in EVERYDAY]:
        try:
            value = ALL[name]()
        except Exception as error:  # the kind of error is the result
            traceback.print_exc()
            value = f"raises_{type(error).__name__}"
        print(f"result {name} {value}", flush=True)
    print(f"info backend {torch.cuda.get_allocator_backend()}")


if __name__ == "__main__":
    main()
