"""A dropless mixture of experts: 8 layers, 8 experts, two per token. No capacity factor pads the experts, so the sizes
of all expert activations differ in every step, and each layer asks the device for its counts (as real ones do)."""

import sys

import torch
import torch.nn.functional as F
from common import main
from models import Attention, Gpt, next_token_loss
from torch import nn


class Permute(torch.autograd.Function):
    """x[order] for a permutation: the gradient is a gather too, exact and without atomics."""

    @staticmethod
    def forward(context, x, order, inverse):
        context.save_for_backward(order, inverse)
        return x[order]

    @staticmethod
    def backward(context, gradient):
        _, inverse = context.saved_tensors
        return gradient[inverse], None, None


class Experts(nn.Module):
    def __init__(self, width, hidden, experts, chosen):
        super().__init__()
        self.chosen, self.count = chosen, experts
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, width))
            for _ in range(experts)
        )

    def forward(self, x):
        batch, length, width = x.shape
        tokens = x.reshape(-1, width)
        weight, choice = self.router(tokens).float().softmax(-1).topk(self.chosen, dim=-1)
        flat = choice.reshape(-1)
        order = flat.argsort(stable=True)
        inverse = order.argsort(stable=True)
        counts = torch.bincount(flat, minlength=self.count).tolist()
        # Each token once per chosen expert, sorted by expert; repeat_interleave's gradient is a plain sum over views.
        copies = tokens[:, None, :].expand(-1, self.chosen, -1).reshape(-1, width)
        parts = Permute.apply(copies, order, inverse).split(counts)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        back = Permute.apply(done, inverse, order).view(-1, self.chosen, width)
        return (back * weight[..., None].to(back.dtype)).sum(1).view(batch, length, width)


class MoeBlock(nn.Module):
    def __init__(self, width, heads, hidden, experts, chosen):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.experts = Experts(width, hidden, experts, chosen)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.experts(self.norm2(x))


def build(job):
    layers, width, heads, hidden = job.sizes(layers=(8, 2), width=(1024, 64), heads=(16, 4), hidden=(4096, 128))
    vocabulary, length, batch = job.sizes(vocabulary=(32000, 97), length=(1024, 32), batch=(8, 2))
    experts, chosen = job.sizes(experts=(8, 8), chosen=(2, 2))
    with job.device:
        model = Gpt(0, width, heads, vocabulary, length)
        model.blocks = nn.ModuleList(MoeBlock(width, heads, hidden, experts, chosen) for _ in range(layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    job.keep(model)

    def step(_):
        tokens = job.tokens(batch, length, vocabulary)
        with job.autocast():
            loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("moe", build))
