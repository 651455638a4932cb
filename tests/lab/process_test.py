"""Reports, the end after a number of steps, the environment's own sitecustomize, ranks, Triton and Inductor."""

import json
import os
import pathlib
import tempfile
import unittest

import laboratory

TRAIN = r"""
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(10):
    model(torch.empty(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("finished")
"""

RANKS = r"""
import json, os, sys, torch, torch.distributed as dist, torch.nn as nn
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
value = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(value)
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank, "text": "x" * (1 + 3 * rank)})
listed = [rank]
dist.broadcast_object_list(listed, src=0)
got = None
if world == 2:
    got = torch.tensor([rank + 10], device="cuda")
    dist.send(got, 1) if rank == 0 else dist.recv(got, 0)
    got = got.item()
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(nn.Linear(256, 256).cuda())
model(torch.empty(8, 256, device="cuda")).sum().backward()
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(4)]).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)
local = sum(p.to_local().numel() for p in model.parameters())
model(torch.empty(8, 1024, device="cuda")).sum().backward()
dist.barrier()
text = json.dumps(dict(rank=rank, world=world, sum=value.item(), ranks=[o["rank"] for o in objects], first=listed[0],
                       got=got, local=local))
sys.stdout.write(text + "\n")
sys.stdout.flush()
dist.destroy_process_group()
"""

COMPILED = r"""
import torch, torch.nn as nn
import triton, triton.language as tl

@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))

x = torch.empty(128, device="cuda")
kernel[lambda meta: (triton.cdiv(128, meta["B"]),)](x, x, 128)
model = nn.Sequential(nn.Linear(256, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 256)).cuda()
compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.empty(32, 256, device="cuda")).sum().backward()
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


class Processes(unittest.TestCase):
    def passed(self, done):
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-3000:])

    def test_report_and_limit_of_steps(self):
        done, reports = laboratory.run(TRAIN, STALLOC_SIMULATED_STEPS=4)
        self.passed(done)
        self.assertNotIn("finished", done.stdout)
        self.assertIn("after 4 optimizer steps", done.stderr)
        self.assertEqual(reports[0]["steps"], 4)
        self.assertIsNone(reports[0]["error"])
        # Weights, gradients and two moments of 4 MiB each, and cuBLAS's workspace.
        self.assertGreater(reports[0]["devices"][0]["peak_allocated_bytes"], 48 << 20)

    def test_out_of_memory_names_step_and_place(self):
        program = TRAIN.replace("    optimizer.zero_grad()", "    if step == 2:\n        x = torch.empty(2**40, device='cuda')")
        done, reports = laboratory.run(program, SIMCUDA_MEMORY="2GiB")
        self.assertNotEqual(done.returncode, 0)
        error = reports[0]["error"]
        self.assertTrue(error["out_of_memory"])
        self.assertEqual(error["step"], 3)
        self.assertIn("torch.empty(2**40", error["call_site"]["code"])

    def test_under_the_preload(self):
        done, reports = laboratory.run(TRAIN, preload=True)
        self.passed(done)
        self.assertEqual(reports[0]["backend"], "cudaMallocAsync")

    def test_the_environments_own_sitecustomize(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sitecustomize.py").write_text("import os; os.environ['SEEN'] = 'yes'\n")
            environment = laboratory.environment()
            path = environment["PYTHONPATH"] + os.pathsep + folder
            done, _ = laboratory.run("import os; print(os.environ['SEEN'])", PYTHONPATH=path)
            self.passed(done)
            self.assertEqual(done.stdout.strip(), "yes")

    def test_nothing_without_the_variable(self):
        program = "import sys; print('stalloc_simulated.hooks' in sys.modules)"
        done, _ = laboratory.run(program, STALLOC_SIMULATED=0)
        self.passed(done)
        self.assertEqual(done.stdout.strip(), "False")

    def test_a_process_without_the_device(self):
        program = "import sys, torch; print('stalloc_simulated.values' in sys.modules, torch.ones(2).sum().item())"
        done, _ = laboratory.run(program, LD_PRELOAD="")
        self.passed(done)
        self.assertEqual(done.stdout.strip(), "False 2.0")

    def test_one_rank_of_many(self):
        done, _ = laboratory.run(RANKS, STALLOC_SIMULATED_WORLD_SIZE=1024, STALLOC_SIMULATED_RANK=5)
        self.passed(done)
        seen = json.loads(done.stdout)
        self.assertEqual((seen["rank"], seen["world"], seen["ranks"]), (5, 1024, [5] * 1024))
        self.assertEqual(seen["local"], 4 * 1024)

    def test_two_processes(self):
        done, reports = laboratory.run(
            RANKS, launcher=["-m", "torch.distributed.run", "--nproc-per-node", "2"], SIMCUDA_DEVICES=2
        )
        self.passed(done)
        seen = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda row: row["rank"])
        self.assertEqual([row["sum"] for row in seen], [3.0, 3.0])
        self.assertEqual([row["ranks"] for row in seen], [[0, 1], [0, 1]])
        self.assertEqual([row["first"] for row in seen], [0, 0])
        self.assertEqual([row["got"] for row in seen], [10, 10])
        self.assertEqual([row["local"] for row in seen], [2 * 1024 * 1024] * 2)
        self.assertEqual([report["rank"] for report in reports], [0, 1])

    def test_compiled(self):
        done, reports = laboratory.run(COMPILED)
        if "No module named 'triton'" in done.stderr:
            self.skipTest("this interpreter has no Triton")
        self.passed(done)
        self.assertEqual(done.stdout.strip(), "1")
        self.assertIn("Inductor's Triton kernels", reports[0]["unsimulated"])


if __name__ == "__main__":
    laboratory.main()
