"""A neural ODE with an adaptive solver: how many evaluations a step takes depends on the data and is known only when
the error has been read back. Every evaluation's activations live until the backward pass; rejected ones do not."""

import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

MOST_STEPS, TOLERANCE = 12, 2e-2


class Field(nn.Module):
    """The right-hand side: an image's change, given the time."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width + 1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, time, x):
        clock = x.new_full((x.shape[0], 1, *x.shape[2:]), time)
        return self.second(F.softplus(self.norm(self.first(torch.cat((x, clock), dim=1)))))


def solved(field, x):
    """From 0 to 1 by Heun's method with Euler's for the error; the step halves where that is large."""
    time, size, first = 0.0, 0.25, field(0.0, x)
    for _ in range(MOST_STEPS):
        size = min(size, 1.0 - time)
        second = field(time + size, x + size * first)
        error = float((0.5 * size * (second - first)).detach().abs().mean())
        if error > TOLERANCE and size > 1 / 16:
            size /= 2
            continue
        x, time = x + 0.5 * size * (first + second), time + size
        if time >= 1.0 - 1e-6:
            break
        first, size = field(time, x), size * (1.6 if error < TOLERANCE / 2 else 1.0)
    return x


def build(job):
    width, side, classes, batch = job.pick((128, 48, 100), (8, 8, 5)) + (job.batch(64, 2),)
    with job.device:
        entry, exit_ = nn.Conv2d(3, width, 4, stride=2, padding=1), nn.Linear(width, classes)
        fields = nn.ModuleList(Field(width) for _ in range(2))
    model = nn.ModuleList((entry, fields, exit_))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    job.keep(model)

    def step(i):
        images = job.randn(batch, 3, side * 2, side * 2) * (1.0 + 0.5 * (i % 5))
        labels = job.tokens(1, batch, classes)[0]
        with job.autocast():
            x = entry(images)
            for field in fields:
                x = solved(field, x)
            loss = F.cross_entropy(exit_(x.mean((2, 3))).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("adaptive_ode", build))
