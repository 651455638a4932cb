"""Tensor or pipeline parallelism of torch.distributed, with real processes. Arguments: STEPS tensor|pipeline.

    torchrun --nproc-per-node 2 parallel.py 6 pipeline
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn

steps, kind = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", torch.cuda.current_device())


class Feed(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


if kind == "tensor":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (world,))
    model = nn.Sequential(*[Feed() for _ in range(8)]).to(device)
    for layer in model:
        parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        model(torch.randn(16, 512, 1024, device=device)).sum().backward()

else:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    model = nn.Sequential(*[Feed() for _ in range(4)]).to(device)
    stage = PipelineStage(model, rank, world, device)
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        if rank == 0:
            schedule.step(torch.randn(16, 512, 1024, device=device))
        elif rank == world - 1:
            schedule.step(target=torch.randn(16, 512, 1024, device=device), losses=[])
        else:
            schedule.step()


for _ in range(steps):
    step()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
a, r = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
print(f"{kind} rank {rank}: peak live {a / 2**30:.3f} GiB, reserved {r / 2**30:.3f} GiB", flush=True)
dist.destroy_process_group()
