"""A small GPT-2 over several GPUs: DDP, FSDP2 (fully_shard) or a 1F1B pipeline. Started by torchrun, mpirun or
srun; see run_multi.py.

FSDP2 is the sharp one: it gathers and frees parameters on streams of its own in every layer, so memory that is reused
before the other stream's work is done turns into NaN within a few steps. Every rank records its own losses.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.distributed as dist
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "scripts")]
from common import make_deterministic, checksum
from harness.device import Nvml
from models import Gpt, next_token_loss


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", choices=["ddp", "fsdp2", "pipeline"], required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", required=True, help="the record of rank N goes to OUT.N.json")
    return parser.parse_args()


class Stage(nn.Module):
    """A rank's share of the blocks, with the embedding on the first and the head on the last."""

    def __init__(self, gpt, rank, world):
        super().__init__()
        per_rank = len(gpt.blocks) // world
        self.first, self.last = rank == 0, rank == world - 1
        end = len(gpt.blocks) if self.last else (rank + 1) * per_rank
        self.blocks = nn.ModuleList(gpt.blocks[rank * per_rank : end])
        if self.first:
            self.token, self.position = gpt.token, gpt.position
        if self.last:
            self.norm, self.head = gpt.norm, nn.Linear(gpt.head.in_features, gpt.head.out_features, bias=False)

    def forward(self, x):
        if self.first:
            x = self.token(x) + self.position.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.last else x


def make_step(arguments, device, rank, world):
    """Returns (step, what to checksum, optimizer's parameters). step() trains once and returns this rank's loss."""
    tiny = arguments.tiny
    layers, width, heads = (2 * world, 64, 4) if tiny else (16, 1024, 16)
    vocabulary, length, batch = (97, 32, 2) if tiny else (50257, 1024, 8)
    with device:
        model = Gpt(layers, width, heads, vocabulary, length)  # one seed: equal on all ranks
    # A pipeline's ranks read the same batch (the first its tokens, the last its targets); the others each their own.
    offset = 0 if arguments.mode == "pipeline" else rank
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1 + offset)
    draw = lambda: torch.randint(vocabulary, (batch, length), generator=generator, device=device)

    if arguments.mode == "pipeline":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        share = Stage(model, rank, world).to(device)
        del model
        stage = PipelineStage(share, rank, world, device)
        schedule = Schedule1F1B(stage, n_microbatches=min(batch, 2 * world), loss_fn=next_token_loss)
        optimizer = torch.optim.AdamW(share.parameters(), lr=3e-4)

        def step():
            tokens, losses = draw(), []
            if rank == 0 and world > 1:
                schedule.step(tokens)
            elif rank == world - 1:
                schedule.step(*([tokens] if world == 1 else []), target=tokens, losses=losses)
            else:
                schedule.step()
            norm = torch.nn.utils.clip_grad_norm_(share.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return torch.stack(losses).mean().detach() if losses else norm

        return step, share

    if arguments.mode == "ddp":
        trained = nn.parallel.DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None, gradient_as_bucket_view=True
        )
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(device.type, (world,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        trained = fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=3e-4)

    def step():
        tokens = draw()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = next_token_loss(trained(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, model


def local_tensors(module):
    """The rank's own bits: a sharded parameter's local part."""
    return [p.to_local() if hasattr(p, "to_local") else p for p in module.parameters()]


# What launchers call a process's rank, their number, and its rank on this host.
LAUNCHERS = [("RANK", "WORLD_SIZE", "LOCAL_RANK")]  # torchrun
LAUNCHERS += [tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK"))]  # Open MPI
LAUNCHERS += [("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")]


def place():
    """(rank, world, local rank), by whatever launcher; torch.distributed is told what torchrun would tell it."""
    for names in LAUNCHERS:
        if all(name in os.environ for name in names):
            found = [int(os.environ[name]) for name in names]
            break
    else:
        raise SystemExit("ddp.py is started by torchrun, mpirun or srun")
    for name, value in zip(LAUNCHERS[0], found):
        os.environ[name] = str(value)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    return found


def report(arguments, world):
    """All ranks' results as one, for frameworks/run: every record is written by now."""
    digest, times = hashlib.sha256(), []
    for rank in range(world):
        with open(f"{arguments.out}.{rank}.json") as file:
            record = json.load(file)
        digest.update(json.dumps([record["losses"], record["checksum"]]).encode())
        times.append(record["median_step_ms"])
    print(f"result {arguments.mode} {digest.hexdigest()[:16]}", flush=True)
    print(f"info step_ms {max(times):.3f}", flush=True)


def main():
    arguments = parse()
    rank, world, local = place()
    cuda = arguments.device == "cuda"
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    make_deterministic(arguments.seed)
    dist.init_process_group("nccl" if cuda else "gloo", **({"device_id": device} if cuda else {}))
    nvml = Nvml(local) if cuda else None
    record = {"mode": arguments.mode, "rank": rank, "world": world, "steps": arguments.steps, "warmup": arguments.warmup}
    for series in ("losses", "step_ms", "driver_used_bytes", "reserved_bytes"):
        record[series] = []
    step, module = make_step(arguments, device, rank, world)
    for _ in range(arguments.steps):
        started = time.perf_counter()
        loss = step()
        if cuda:
            torch.cuda.synchronize()
        record["step_ms"].append((time.perf_counter() - started) * 1e3)
        record["losses"].append(float(loss).hex())
        if cuda:
            record["driver_used_bytes"].append(nvml.used_bytes())
            record["reserved_bytes"].append(torch.cuda.memory_reserved())
    record["median_step_ms"] = statistics.median(record["step_ms"][arguments.warmup :] or record["step_ms"])
    if cuda:
        record["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        record["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
        record["backend"] = torch.cuda.get_allocator_backend()
    record["oom"] = False
    record["checksum"] = checksum(local_tensors(module))
    with open(f"{arguments.out}.{rank}.json", "w") as file:
        json.dump(record, file)
    dist.barrier()
    if rank == 0:
        report(arguments, world)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
