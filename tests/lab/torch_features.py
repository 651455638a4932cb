"""One feature of PyTorch that its cudaMallocAsync backend lacks or that depends on the allocator, by name; prints what it did.

python torch_features.py NAME      runs one; without a GPU over the simulated device, where values mean nothing
python torch_features.py --list    names them
"""
import ctypes
import gc
import os
import subprocess
import sys
import tempfile

FEATURES = {}
SIMULATED = os.environ.get("STALLOC_SIMULATED") == "1"


def feature(function):
    FEATURES[function.__name__] = function
    return function


def backend():
    import torch

    return torch.cuda.get_allocator_backend()


@feature
def environment():
    """The script's own words stay in os.environ and in children."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    torch.empty(1000, device="cuda")
    child = subprocess.run(["sh", "-c", "echo $PYTORCH_ALLOC_CONF$PYTORCH_CUDA_ALLOC_CONF"], capture_output=True, text=True)
    assert child.stdout.strip() == os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    return "environment as it was"


@feature
def settings():
    import torch

    torch.empty(1000, device="cuda")
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:100")
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.empty(1000, device="cuda")
    return "set"


@feature
def statistics():
    import torch

    blocks = [torch.empty(1 << 20, device="cuda") for _ in range(3)]
    del blocks[0]
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.current"] == 2 and stats["allocation.all.peak"] == 3, stats
    assert stats["allocated_bytes.all.current"] == 2 << 22 == stats["requested_bytes.all.current"], stats
    assert stats["allocated_bytes.all.allocated"] == 3 << 22 and stats["allocated_bytes.all.freed"] == 1 << 22
    assert stats["reserved_bytes.all.current"] >= 2 << 22
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.peak"] == 2 and stats["allocation.all.allocated"] == 0
    summary = torch.cuda.memory_summary()
    assert "Allocated memory      |   8192 KiB" in summary, summary
    try:
        torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    return f"{len(stats)} figures, out of memory {torch.cuda.memory_stats()['num_ooms']}"


@feature
def history():
    import torch
    from torch.cuda import _memory_viz as viz

    torch.cuda.memory._record_memory_history(max_entries=1000)

    def make():
        return torch.empty(1 << 20, device="cuda")

    kept = make()
    make()
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._dump_snapshot(folder + "/snapshot.pickle")
        import pickle

        snapshot = pickle.load(open(folder + "/snapshot.pickle", "rb"))
    events = [event["action"] for event in snapshot["device_traces"][0]]
    assert events.count("alloc") == 2 and events.count("free_completed") == 1, events
    first = next(event for event in snapshot["device_traces"][0] if event["action"] == "alloc")
    assert "make" in [frame["name"] for frame in first["frames"]], first
    segments = torch.cuda.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == torch.cuda.memory_allocated() == 1 << 22
    assert "make" in viz.segments(snapshot, format_flamegraph=lambda text: text)
    assert "make" in viz.memory(snapshot, format_flamegraph=lambda text: text)
    assert len(viz.trace_plot(snapshot)) > 1000 and viz.trace(snapshot)
    torch.cuda.memory._record_memory_history(enabled=None)
    del kept
    return f"{len(events)} events, {len(segments)} segments drawn"


@feature
def observer():
    import torch

    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *facts: seen.append(facts))
    try:
        torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    assert len(seen) == 1, seen
    return "observed"


@feature
def mem_pool():
    import torch

    if not hasattr(torch.cuda, "MemPool"):
        return "no MemPool in this version"
    pool = torch.cuda.MemPool()
    if hasattr(torch.cuda, "use_mem_pool"):
        with torch.cuda.use_mem_pool(pool):
            torch.empty(1 << 20, device="cuda")
    return "used"


PLUGGABLE = """
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
int allocations, frees;
void* allocate(ssize_t size, int device, void* stream) {
  void* block = 0;
  int (*get)(void**, size_t) = (int (*)(void**, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
  if (!get) get = (int (*)(void**, size_t))dlsym(dlopen(RUNTIME, RTLD_LAZY), "cudaMalloc");
  ++allocations;
  get(&block, size);
  return block;
}
void release(void* block, size_t size, int device, void* stream) {
  int (*put)(void*) = (int (*)(void*))dlsym(RTLD_DEFAULT, "cudaFree");
  if (!put) put = (int (*)(void*))dlsym(dlopen(RUNTIME, RTLD_LAZY), "cudaFree");
  ++frees;
  put(block);
}
"""


@feature
def pluggable_pool():
    import torch

    if not hasattr(torch.cuda, "use_mem_pool"):
        return "no use_mem_pool in this version"
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/pluggable.c", "w").write(PLUGGABLE)
        runtime = f'-DRUNTIME="libcudart.so.{torch.version.cuda.split(".")[0]}"'
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", runtime, "pluggable.c", "-o", "pluggable.so", "-ldl"],
                       cwd=folder, env=plain, check=True)  # fmt: skip
        path = folder + "/pluggable.so"
        allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "allocate", "release")
        counts = ctypes.CDLL(path)
        made = torch.cuda.MemPool(allocator.allocator())
        with torch.cuda.use_mem_pool(made):
            blocks = [torch.empty(1000, device="cuda") for _ in range(10)]
        asked = ctypes.c_int.in_dll(counts, "allocations").value
        torch.empty(1 << 24, device="cuda")
        assert 1 <= asked == ctypes.c_int.in_dll(counts, "allocations").value
        del blocks, made
        gc.collect()
        torch.cuda.empty_cache()
        return f"asked {asked}, returned {ctypes.c_int.in_dll(counts, 'frees').value}"


@feature
def graph_with_pool():
    import torch

    x = torch.zeros(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (x + 1).mul(2)
    torch.cuda.synchronize()
    first, second, pool = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    with torch.cuda.graph(first, pool=pool):
        y = (x + 1).mul(2)
    with torch.cuda.graph(second, pool=pool):
        z = y + 3
    x.fill_(4)
    first.replay()
    second.replay()
    torch.cuda.synchronize()
    assert SIMULATED or z.unique().tolist() == [13.0]
    return "replayed"


@feature
def graphed_callables():
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
    sample = torch.randn(8, 64, device="cuda", requires_grad=True)
    model = torch.cuda.make_graphed_callables(model, (sample,))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss = model(torch.ones(8, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.rand(3, device="cuda")
    return f"loss {loss.item():.6f}"


@feature
def reduce_overhead():
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(5):
        loss = compiled(torch.ones(8, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return f"loss {loss.item():.6f}"


@feature
def cudagraphs_backend():
    import torch

    compiled = torch.compile(lambda x: (x + 1).relu() * 2, backend="cudagraphs")
    for _ in range(4):
        y = compiled(torch.ones(1000, device="cuda"))
    assert SIMULATED or y.unique().tolist() == [4.0]
    return "ran"


def _receive(queue, back):
    tensor, view = queue.get()
    if not SIMULATED:
        assert tensor.tolist()[:3] == [0.0, 1.0, 2.0] and view.tolist()[:2] == [10.0, 11.0]
        tensor[0] = 7.0
        view[0] = 8.0
    import torch

    torch.cuda.synchronize()
    back.put((tensor.data_ptr() + 40 == view.data_ptr(), str(tensor.device)))
    queue.get()
    del tensor, view
    gc.collect()
    back.put("done")


@feature
def queue():
    """A tensor, and a view of it, sent through a queue: both processes share them."""
    import torch
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=_receive, args=(there, back))
    process.start()
    tensor = torch.arange(1000, device="cuda", dtype=torch.float32)
    view = tensor[10:20]
    there.put((tensor, view))
    shared, device = back.get(timeout=100)
    assert shared and device == "cuda:0" and tensor.data_ptr() + 40 == view.data_ptr()
    if not SIMULATED:
        assert tensor.tolist()[0] == 7.0 and tensor.tolist()[10] == 8.0 == view.tolist()[0]
    there.put(None)
    assert back.get(timeout=100) == "done"
    process.join()
    torch.cuda.ipc_collect()
    assert process.exitcode == 0
    before = torch.cuda.memory_allocated()
    del tensor, view
    return f"shared, {before - torch.cuda.memory_allocated()} bytes freed"


@feature
def parameters():
    """A model whose parameters another process trains."""
    import torch
    import torch.multiprocessing as mp

    model = torch.nn.Linear(4, 4).cuda().share_memory()
    context = mp.get_context("spawn")
    process = context.Process(target=_fill, args=(model,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert SIMULATED or model.weight.unique().tolist() == [5.0]
    return "shared"


def _fill(model):
    import torch

    with torch.no_grad():
        model.weight.fill_(5.0)
        model.bias.fill_(5.0)
    torch.cuda.synchronize()


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print(*FEATURES)
    else:
        said = FEATURES[sys.argv[1]]()
        print(f"{sys.argv[1]}: {said} ({backend()})")
