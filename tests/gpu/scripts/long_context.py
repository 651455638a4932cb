"""Long context: documents of log-uniform length packed to a nearly constant number of tokens (the same sites, all sizes
a little different), cross-entropy in chunks, and blocks whose activations wait in pinned host memory, copied on a side
stream with record_stream."""

import math
import random
import sys

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from common import main
from models import Attention, Llama, rotary_tables, rotate


class PackedAttention(Attention):
    """Each document attends within itself; `layout` is (cosine, sine, lengths)."""

    def forward(self, x, layout):
        cosine, sine, lengths = layout
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        parts = zip(q.split(lengths, 2), k.split(lengths, 2), v.split(lengths, 2))
        y = torch.cat([F.scaled_dot_product_attention(*part, is_causal=True) for part in parts], dim=2)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Offload(torch.autograd.graph.saved_tensors_hooks):
    """Keeps what is saved for the backward pass on the host, if it has `least_bytes`; copies on a stream of its own."""

    def __init__(self, job, least_bytes):
        self.device, self.least_bytes = job.device, least_bytes
        self.stream = torch.cuda.Stream() if job.cuda else None
        super().__init__(self._to_host, self._to_device)

    def _to_host(self, tensor):
        if tensor.nbytes < self.least_bytes:
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self.stream is not None)
        if self.stream is None:
            return (host.copy_(tensor),)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.stream)
        return (host,)

    def _to_device(self, kept):
        if isinstance(kept, torch.Tensor):
            return kept
        if self.stream is None:
            return kept[0].clone()
        main_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            tensor = kept[0].to(self.device, non_blocking=True)
        main_stream.wait_stream(self.stream)
        tensor.record_stream(main_stream)
        return tensor


def pack(draw, shortest, longest, budget):
    """Log-uniform lengths in [shortest, longest] whose sum falls short of `budget` by less than `shortest`."""
    lengths = []
    while budget >= shortest:
        length = int(math.exp(draw.uniform(math.log(shortest), math.log(longest))))
        lengths.append(min(length, budget))
        budget -= lengths[-1]
    return lengths


def build(job):
    layers, width, heads, hidden = job.pick((6, 2048, 16, 5504), (3, 64, 4, 96))
    vocabulary, budget, chunk = job.pick((32000, 12288, 2048), (97, 96, 20))
    budget *= job.batch(1, 1)
    shortest, longest = job.pick((64, 8192), (4, 64))
    with job.device:
        model = Llama(layers, width, heads, hidden, vocabulary)
        for block in model.blocks:
            block.attention = PackedAttention(width, heads, bias=False)
            for linear in (block.attention.qkv, block.attention.out):
                torch.nn.init.normal_(linear.weight, std=0.02)
    offload = Offload(job, job.pick(8 << 20, 1 << 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = random.Random(job.seed)
    job.keep(model)

    def chunk_loss(x, target):
        return F.cross_entropy(model.head(model.norm(x)), target, reduction="sum", ignore_index=-100)

    def loss_of(lengths):
        tokens = job.tokens(1, sum(lengths), vocabulary)
        ends = torch.tensor(lengths).cumsum(0) - 1
        target = tokens[0].roll(-1)
        target[ends.to(job.device)] = -100
        tables = rotary_tables(max(lengths), width // heads, job.device, torch.float32)
        layout = [torch.cat([table[:length] for length in lengths]) for table in tables]
        x = model.token(tokens)
        for i, block in enumerate(model.blocks):
            if i % 3:
                x = block(x, (*layout, lengths))
            else:
                with offload:
                    x = block(x, (*layout, lengths))
        pairs = zip(x[0].split(chunk), target.split(chunk))
        parts = [torch.utils.checkpoint.checkpoint(chunk_loss, *pair, use_reentrant=False) for pair in pairs]
        return torch.stack(parts).sum() / len(tokens[0])

    def step(_):
        with job.autocast():
            loss = loss_of(pack(draw, shortest, longest, budget))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("long_context", build))
