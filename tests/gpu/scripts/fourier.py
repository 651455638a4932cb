"""A Fourier neural operator: complex tensors, cuFFT with the workspaces of its plans, a spectrum cut at modes that grow
with the resolution, trained at one of three resolutions in every step and rolled out without gradients every sixth."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

SIDES, ROLL_EVERY = (128, 192, 256), 6


class Spectral(nn.Module):
    """Multiplies the lowest modes of each map by learnt complex matrices."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width)

    def forward(self, x):
        height, breadth = x.shape[-2:]
        spectrum = torch.fft.rfft2(x)
        weight, m = torch.view_as_complex(self.weight), self.modes
        mixed = [torch.einsum("bixy,ioxy->boxy", part, weight[k])
                 for k, part in enumerate((spectrum[:, :, :m, :m], spectrum[:, :, -m:, :m]))]  # fmt: skip
        middle = spectrum.new_zeros(*mixed[0].shape[:2], height - 2 * m, m)
        low = torch.cat((mixed[0], middle, mixed[1]), dim=2)
        return torch.fft.irfft2(F.pad(low, (0, breadth // 2 + 1 - m)), s=(height, breadth))


class Operator(nn.Module):
    def __init__(self, layers, width, modes, channels):
        super().__init__()
        self.lift, self.project = nn.Conv2d(channels, width, 1), nn.Conv2d(width, channels, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def forward(self, x):
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local):
            x = x + F.gelu(spectral(x) + local(x))
        return self.project(x)


def build(job):
    layers, width, modes, channels = job.pick((6, 64, 24, 3), (2, 4, 3, 2))
    batch, shrink, horizon = job.batch(20, 2), job.pick(1, 8), job.pick(5, 2)
    with job.device:
        model = Operator(layers, width, modes, channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    draw = random.Random(job.seed)
    job.keep(model)

    @torch.no_grad()
    def rolled_out(state):
        for _ in range(horizon):
            state = state + 0.1 * model(state)
        return state.square().mean()

    def step(i):
        side = draw.choice(SIDES) // shrink
        state, after = job.randn(batch, channels, side, side), job.randn(batch, channels, side, side)
        loss = F.mse_loss(model(state), after)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.detach()
        return loss + rolled_out(state) if i % ROLL_EVERY == ROLL_EVERY - 1 else loss

    return step


if __name__ == "__main__":
    sys.exit(main("fourier", build))
