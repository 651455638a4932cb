"""Interleaved 1F1B: what rank 0 of 4 does in a virtual pipeline of 4 ranks x 4 chunks with 8 micro-batches.

One GPU plays rank 0. What would arrive from the neighbours (inputs of later chunks, gradients of outputs) is drawn from
the seeded generator into a fresh buffer, as a receive does. The order of the passes is that of the published schedule:
warm-up forwards, then one forward and one backward in turn, then the remaining backwards; micro-batches go through the
chunks in groups of as many as there are ranks. Activations thus live for very different times.
"""

import sys

import torch
from common import main
from models import Block
from torch import nn

RANKS, CHUNKS, MICRO_BATCHES = 4, 4, 8


def schedule():
    """[(direction, chunk, micro-batch)] of rank 0 for one step."""

    def place(k, backward):
        group, inside = divmod(k, RANKS * CHUNKS)
        chunk, offset = divmod(inside, RANKS)
        return CHUNKS - 1 - chunk if backward else chunk, group * RANKS + offset

    total = MICRO_BATCHES * CHUNKS
    warmup = min(total, (RANKS - 1) * 2 + (CHUNKS - 1) * RANKS)
    order = [("forward", *place(k, False)) for k in range(warmup)]
    for k in range(total - warmup):
        order += [("forward", *place(warmup + k, False)), ("backward", *place(k, True))]
    return order + [("backward", *place(k, True)) for k in range(total - warmup, total)]


def build(job):
    layers, width, heads = job.sizes(layers=(2, 1), width=(2048, 64), heads=(16, 4))
    vocabulary, length, batch = job.sizes(vocabulary=(32000, 97), length=(2048, 32), batch=(1, 1))
    with job.device:
        chunks = nn.ModuleList(nn.Sequential(*(Block(width, heads) for _ in range(layers))) for _ in range(CHUNKS))
        embedding = nn.Embedding(vocabulary, width)
    parameters = [*chunks.parameters(), *embedding.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    job.keep(chunks, embedding)
    order = schedule()

    def step(_):
        waiting, seen = {}, []
        for direction, chunk, micro in order:
            if direction == "forward":
                if chunk == 0:
                    entry = None
                    x = embedding(job.tokens(batch, length, vocabulary))
                else:
                    entry = x = job.randn(batch, length, width, dtype=torch.bfloat16).requires_grad_()
                with job.autocast():
                    y = chunks[chunk](x)
                if chunk == CHUNKS - 1:
                    seen.append(y.detach().float().square().mean())
                waiting[chunk, micro] = (entry, y)
                del x, y, entry
            else:
                entry, y = waiting.pop((chunk, micro))
                y.backward(job.randn(*y.shape, dtype=y.dtype) * 1e-3)
                if entry is not None:
                    seen.append(entry.grad.float().abs().mean())  # what rank 0 would send back
                del entry, y
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return torch.stack(seen).mean()

    return step


if __name__ == "__main__":
    sys.exit(main("vpp", build))
