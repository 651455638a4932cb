"""A diffusion model's U-Net in aspect-ratio buckets: one of six shapes at random in every step, maps of the way down
that wait for the way up, averaged weights, and every tenth step sampling without gradients at another batch size."""

import copy
import random
import sys

import torch
import torch.nn.functional as F
from common import main
from gan import double
from torch import nn

BUCKETS = ((64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (40, 96))
SAMPLE_EVERY, DECAY = 10, 0.999


class Residual(nn.Module):
    def __init__(self, wide_in, wide_out, conditions):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, wide_in), nn.GroupNorm(8, wide_out)
        self.first, self.second = nn.Conv2d(wide_in, wide_out, 3, padding=1), nn.Conv2d(
            wide_out, wide_out, 3, padding=1
        )
        self.shift = nn.Linear(conditions, wide_out)
        self.skip = nn.Conv2d(wide_in, wide_out, 1) if wide_in != wide_out else nn.Identity()

    def forward(self, x, condition):
        y = self.first(F.silu(self.norm1(x))) + self.shift(condition)[:, :, None, None]
        return self.skip(x) + self.second(F.silu(self.norm2(y)))


class MapAttention(nn.Module):
    """Every position of the map attends to all."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, _):
        batch, width, height, breadth = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(tokens).view(batch, -1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, -1, width)
        return x + self.out(y).transpose(1, 2).reshape(batch, width, height, breadth)


class UNet(nn.Module):
    """Halves the map at every level but the first; attends at every level but the first."""

    def __init__(self, widths, conditions, heads, channels=4):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, conditions), nn.SiLU(), nn.Linear(conditions, conditions))
        self.entry, self.exit = nn.Conv2d(channels, widths[0], 3, padding=1), nn.Conv2d(
            widths[0], channels, 3, padding=1
        )
        self.down, self.up, self.shrink = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for level, wide in enumerate(widths):
            before = widths[max(level - 1, 0)]
            self.down.append(self._stage(before, wide, conditions, heads, attend=level > 0))
            self.up.insert(0, self._stage(2 * wide, before, conditions, heads, attend=level > 0))
            self.shrink.append(
                nn.Conv2d(wide, wide, 3, stride=2, padding=1) if level + 1 < len(widths) else nn.Identity()
            )

    def _stage(self, wide_in, wide_out, conditions, heads, attend):
        parts = [Residual(wide_in, wide_out, conditions), Residual(wide_out, wide_out, conditions)]
        return nn.ModuleList(parts + [MapAttention(wide_out, heads)] * attend)

    def forward(self, x, time):
        angle = time[:, None] * torch.exp(-torch.arange(32, device=x.device) * 0.28)
        condition = self.time(torch.cat((angle.sin(), angle.cos()), dim=1))
        x, waiting = self.entry(x), []
        for stage, shrink in zip(self.down, self.shrink):
            for part in stage:
                x = part(x, condition)
            waiting.append(x)
            x = shrink(x)
        for level, stage in enumerate(self.up):
            x = torch.cat((double(x) if level else x, waiting.pop()), dim=1)
            for part in stage:
                x = part(x, condition)
        return self.exit(F.silu(x))


def build(job):
    widths, conditions, heads = job.pick(((192, 384, 576, 768), 768, 12), ((16, 32), 32, 4))
    batch, shrink, denoise = job.batch(48, 2), job.pick(1, 4), job.pick(6, 2)
    with job.device:
        model = UNet(widths, conditions, heads)
    average = copy.deepcopy(model).requires_grad_(False)
    pairs = [list(average.parameters()), list(model.parameters())]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    draw = random.Random(job.seed)
    job.keep(model, average)

    @torch.no_grad()
    def sampled(height, breadth):
        x = job.randn(max(1, batch // 4), 4, height, breadth)
        for k in range(denoise):
            time = torch.full((x.shape[0],), 1.0 - k / denoise, device=job.device)
            with job.autocast():
                x = x - average(x, time).float() / denoise
        return x.square().mean()

    def step(i):
        height, breadth = (side // shrink for side in draw.choice(BUCKETS))
        clean, noise = job.randn(batch, 4, height, breadth), job.randn(batch, 4, height, breadth)
        time = torch.rand(batch, generator=job.generator, device=job.device)
        weight = time[:, None, None, None]
        with job.autocast():
            loss = F.mse_loss(model((1 - weight) * clean + weight * noise, time).float(), noise - clean)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(*pairs, 1 - DECAY)
        loss = loss.detach()
        return loss + sampled(height, breadth) if i % SAMPLE_EVERY == SAMPLE_EVERY - 1 else loss

    return step


if __name__ == "__main__":
    sys.exit(main("diffusion", build))
