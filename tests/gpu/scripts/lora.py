"""LoRA: a frozen bf16 Llama-like base of 24 layers with rank-16 adapters on every attention projection. Almost all
memory is weights that never change and activations; gradients and optimizer state are small blocks, many of them."""

import sys

import torch
from common import main
from models import Llama, next_token_loss
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=0.02)
        nn.init.normal_(self.up.weight, std=0.002)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def build(job):
    layers, width, heads, hidden = job.sizes(layers=(24, 2), width=(2048, 64), heads=(16, 4), hidden=(5504, 96))
    vocabulary, length, batch = job.sizes(vocabulary=(32000, 97), length=(1024, 32), batch=(8, 2))
    (rank,) = job.sizes(rank=(16, 4))
    with job.device:
        model = Llama(layers, width, heads, hidden, vocabulary).requires_grad_(False)
        for block in model.blocks:
            block.attention.qkv = Adapted(block.attention.qkv, rank)
            block.attention.out = Adapted(block.attention.out, rank)
    model = model.to(torch.bfloat16)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    job.keep(*trained)

    def step(_):
        tokens = job.tokens(batch, length, vocabulary)
        loss = next_token_loss(model(tokens).float(), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("lora", build))
