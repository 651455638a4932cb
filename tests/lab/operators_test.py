"""Operators that need NVIDIA's libraries, and values that decide what a program does."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

import laboratory

OPERATORS = r"""
import json, sys, torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.zeros(1, device="cuda")
half = torch.bfloat16
results = {}

def new(*sizes, dtype=torch.float32):
    return torch.empty(*sizes, device="cuda", dtype=dtype, requires_grad=True)

def run(name, operator):
    try:
        result = operator()
        result = result[0] if isinstance(result, (tuple, list)) else result
        if result.requires_grad:
            (result.real if result.is_complex() else result).sum().backward()
        torch.cuda.synchronize()
        results[name] = list(result.shape)
    except Exception as failure:
        results[name] = f"{type(failure).__name__}: {failure}"

before = torch.cuda.memory_allocated()
run("mm", lambda: new(64, 32) @ new(32, 16))
results["workspace"] = torch.cuda.memory_allocated() - before
for dtype in (torch.float32, half):
    run(f"linear {dtype}", lambda: F.linear(new(64, 32, dtype=dtype), new(16, 32, dtype=dtype), new(16, dtype=dtype)))
    run(f"conv1d {dtype}", lambda: F.conv1d(new(2, 16, 32, dtype=dtype), new(8, 16, 3, dtype=dtype), padding=1))
    run(f"conv2d {dtype}", lambda: F.conv2d(new(2, 16, 32, 32, dtype=dtype), new(8, 16, 3, 3, dtype=dtype), stride=2))
    run(f"conv3d {dtype}", lambda: F.conv3d(new(2, 4, 8, 8, 8, dtype=dtype), new(8, 4, 3, 3, 3, dtype=dtype)))
    run(f"transposed {dtype}", lambda: F.conv_transpose2d(new(2, 16, 8, 8, dtype=dtype), new(16, 8, 3, 3, dtype=dtype)))
    run(f"batch norm {dtype}", lambda: torch.nn.BatchNorm2d(16, device="cuda")(new(2, 16, 8, 8, dtype=dtype)))
run("bmm", lambda: torch.bmm(new(4, 8, 16), new(4, 16, 8)))
run("baddbmm", lambda: torch.baddbmm(new(4, 8, 8), new(4, 8, 16), new(4, 16, 8)))
run("dot", lambda: new(64) @ new(64))
run("mv", lambda: new(64, 32) @ new(32))
for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
    with sdpa_kernel(backend):
        run(f"{backend}", lambda: F.scaled_dot_product_attention(
            *(new(2, 4, 128, 64, dtype=half) for _ in range(3)), is_causal=True))
run("lstm", lambda: torch.nn.LSTM(32, 64, 2, device="cuda")(new(10, 4, 32)))
run("gru", lambda: torch.nn.GRU(32, 64, 2, bidirectional=True, dropout=0.1, device="cuda")(new(10, 4, 32)))
run("lstm projected", lambda: torch.nn.LSTM(32, 64, proj_size=16, device="cuda")(new(10, 4, 32)))
run("rfft2", lambda: torch.fft.rfft2(new(4, 64, 64)))
run("irfft", lambda: torch.fft.irfft(new(4, 33)))
for name in ("cholesky", "inv", "qr", "svd", "eigh", "det", "pinv", "lu_factor", "eigvalsh"):
    run(name, lambda: getattr(torch.linalg, name)(new(3, 16, 16)))
run("eig", lambda: torch.linalg.eig(new(16, 16)))
run("solve", lambda: torch.linalg.solve(new(16, 16), new(16, 4)))
run("lstsq", lambda: torch.linalg.lstsq(new(16, 8), new(16, 4)))
eight = lambda *sizes: torch.empty(*sizes, device="cuda", dtype=torch.float8_e4m3fn)
scale = torch.ones((), device="cuda")
run("scaled mm", lambda: torch._scaled_mm(eight(64, 64), eight(64, 64).t(), scale, scale, out_dtype=half))
whole = lambda *sizes: torch.zeros(*sizes, device="cuda", dtype=torch.int8)
run("int mm", lambda: torch._int_mm(whole(64, 64), whole(64, 64)))
offsets = torch.tensor([16, 32, 48, 64], dtype=torch.int32, device="cuda")
run("grouped mm", lambda: torch._grouped_mm(new(64, 32, dtype=half).detach(), new(4, 64, 32, dtype=half).detach()
                                            .transpose(-2, -1), offs=offsets))
sparse = torch.eye(16).to_sparse_csr().to("cuda")
run("sparse mm", lambda: sparse @ new(16, 8))
run("sparse sparse", lambda: (sparse @ sparse).to_dense())
run("ctc", lambda: F.ctc_loss(new(50, 4, 20).log_softmax(2), torch.randint(1, 20, (4, 10), device="cuda"),
                              torch.full((4,), 50), torch.full((4,), 10)))
run("grid sample", lambda: F.grid_sample(new(2, 3, 8, 8), new(2, 8, 8, 2)))
parameters = [new(64, 64) for _ in range(4)]
for choice in ("fused", "foreach", None):
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    optimizer = torch.optim.AdamW(parameters, **({choice: True} if choice else {}))
    run(f"AdamW {choice}", lambda: optimizer.step() or parameters[0].detach())
print(json.dumps(results))
"""

VALUES = r"""
import json, torch
d = "cuda"
x = torch.tensor([3, 1, 2], device=d)
logits = torch.empty(8, 16, device=d)
chosen = logits.topk(2).indices
mask = torch.nn.functional.one_hot(chosen, 16).permute(2, 1, 0)
strided = torch.arange(6, device=d).view(2, 3).t()
scaler = torch.amp.GradScaler("cuda")
layer = torch.nn.Linear(4, 4, device=d)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
weight = layer.weight
for _ in range(3):
    scaler.scale(layer(torch.empty(2, 4, device=d)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
print(json.dumps(dict(
    plus=(x + 1).tolist(), total=x.sum().item(), joined=torch.cat([x, x * 2]).tolist(), mask=(x > 1).tolist(),
    where=(x > 1).nonzero().flatten().tolist(), sorted=torch.sort(x).values.tolist(), cumulated=x.cumsum(0).tolist(),
    unique=torch.unique(torch.tensor([2, 1, 2], device=d)).tolist(), counts=torch.bincount(x, minlength=5).tolist(),
    strided=strided.contiguous().tolist(), gathered=strided[1].tolist(), converted=x.float().tolist(),
    wide=torch.arange(4, device=d).view(2, 2)[:, [1]].tolist(), full=torch.full((2,), 7, device=d).tolist(),
    distinct=all(len(set(row)) == 2 and 0 <= min(row) and max(row) < 16 for row in chosen.tolist()),
    tokens_of_experts=sum(len(torch.where(expert)[0]) for expert in mask), samples=int(logits.argmax(-1).max()) < 16,
    drawn=torch.multinomial(logits.softmax(-1), 1).max().item() < 16, loss=0 < logits.mean().item() < 1,
    nan=torch.isnan(logits).any().item(), finite=torch.isfinite(logits).all().item(), scale=scaler.get_scale(),
    histogram=sum(torch.histc(logits, 4, 0, 1).tolist()), equal=torch.equal(x, x + 0), differs=torch.equal(x, x + 1),
)))
"""

WANTED = dict(
    plus=[4, 2, 3], total=6, joined=[3, 1, 2, 6, 2, 4], mask=[True, False, True], where=[0, 2], sorted=[1, 2, 3],
    cumulated=[3, 4, 6], unique=[1, 2], counts=[0, 1, 1, 1, 0], strided=[[0, 3], [1, 4], [2, 5]], gathered=[1, 4],
    converted=[3.0, 1.0, 2.0], wide=[[1], [3]], full=[7, 7], distinct=True, tokens_of_experts=16, samples=True,
    drawn=True, loss=True, nan=False, finite=True, scale=65536.0, histogram=128, equal=True, differs=False,
)  # fmt: skip


class Operators(unittest.TestCase):
    def test_every_operator_gives_a_result(self):
        done, _ = laboratory.run(OPERATORS)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        results = json.loads(done.stdout)
        self.assertEqual({}, {name: text for name, text in results.items() if isinstance(text, str)})
        self.assertEqual(results["lstm"], [10, 4, 64])
        self.assertEqual(results["rfft2"], [4, 64, 33])
        # cuBLAS's workspaces on Hopper, allocated through PyTorch: one of the forward pass's thread and one of autograd's.
        self.assertGreaterEqual(results["workspace"], 64 << 20)
        self.assertLess(results["workspace"], 65 << 20)

    def test_values(self):
        done, reports = laboratory.run(VALUES)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(json.loads(done.stdout), WANTED)
        self.assertIn("topk", reports[0]["choices"])

    def test_the_same_choices_under_every_allocator(self):
        program = "import torch\nx = torch.empty(64, 8, device='cuda')\nprint(x.topk(2).indices.tolist(), x.argmax(1).tolist())"
        first, _ = laboratory.run(program)
        second, _ = laboratory.run(program, PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
        self.assertEqual(first.returncode, 0, first.stderr[-2000:])
        self.assertEqual(first.stdout, second.stdout)

    def test_indices_keep_their_values_beside_activations(self):
        program = """
import torch
for _ in range(6):
    activations = torch.ones(32 << 20).cuda()  # 128 MiB each
    indices = torch.arange(1 << 19)
    assert torch.equal(indices.cuda().cpu(), indices)
print(torch.ones(8).cuda().tolist())
"""
        done, _ = laboratory.run(program)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(json.loads(done.stdout), [1.0] * 8)

    def test_every_imported_function_has_a_stand_in(self):
        if shutil.which("nm") is None:
            self.skipTest("no nm")
        probe = "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"
        python, _ = laboratory.find_python()
        folder = pathlib.Path(subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout.strip())

        def symbols(library, option):
            text = subprocess.run(["nm", "-D", option, library], capture_output=True, text=True, check=True).stdout
            return {line.split()[-1].split("@")[0] for line in text.splitlines() if line}

        wanted = set()
        for name in ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so"):
            if (folder / "lib" / name).exists():
                wanted |= symbols(folder / "lib" / name, "--undefined-only")
        wanted = {name for name in wanted if re.match("(cublas|cudnn|cufft|cusolver|cusparse|nccl)[A-Z]", name)}
        self.assertGreater(len(wanted), 300)
        offered = set()
        for library in (laboratory.build_folder() / "lib" / "simcuda").glob("*.so*"):
            offered |= symbols(library, "--defined-only")
        self.assertEqual(sorted(wanted - offered), [])


if __name__ == "__main__":
    laboratory.main()
