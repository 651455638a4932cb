"""A vision transformer with progressive resizing: the resolution rises every ten steps and stays, so a pattern holds
for ten steps and then all sizes are new; mixup, and one to three accumulation passes, drawn anew for every step."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from models import Block
from torch import nn

STAGE_STEPS = 10


class Vit(nn.Module):
    """Patches of `patch` x `patch`, learnt positions on a grid of which small images use a corner, mean of patches."""

    def __init__(self, layers, width, heads, patch, grid, outputs):
        super().__init__()
        self.patch = patch
        self.entry, self.position = nn.Linear(3 * patch * patch, width), nn.Parameter(torch.zeros(grid, grid, width))
        self.blocks = nn.ModuleList(Block(width, heads, causal=False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, images):
        batch, channels, height, breadth = images.shape
        rows, columns = height // self.patch, breadth // self.patch
        cut = images.view(batch, channels, rows, self.patch, columns, self.patch).permute(0, 2, 4, 1, 3, 5)
        x = self.entry(cut.reshape(batch, rows * columns, -1)) + self.position[:rows, :columns].reshape(
            rows * columns, -1
        )
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def build(job):
    layers, width, heads = job.pick((16, 1024, 16), (2, 64, 4))
    patch, sides, classes = job.pick((16, (128, 160, 192, 224, 256), 1000), (4, (8, 12, 16), 10))
    batch = job.batch(64, 2)
    with job.device:
        model = Vit(layers, width, heads, patch, sides[-1] // patch, classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = random.Random(job.seed)
    job.keep(model)

    def loss_of(side):
        images = job.randn(batch, 3, side, side)
        labels = torch.randint(classes, (batch,), generator=job.generator, device=job.device)
        other = torch.randperm(batch, generator=job.generator, device=job.device)
        share = draw.betavariate(0.8, 0.8)
        images = images.lerp(images[other], 1 - share)
        with job.autocast():
            logits = model(images)
            return share * F.cross_entropy(logits, labels) + (1 - share) * F.cross_entropy(logits, labels[other])

    def step(i):
        side, passes = sides[min(i // STAGE_STEPS, len(sides) - 1)], draw.randint(1, 3)
        total = torch.zeros((), device=job.device)
        for _ in range(passes):
            loss = loss_of(side) / passes
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


if __name__ == "__main__":
    sys.exit(main("vit_multires", build))
