"""A GAN: two models and two optimizers by turns. The discriminator's graph lives in every step, the generator's in
every second one, and in every fourth a gradient penalty keeps a graph of the backward pass itself (double backward)."""

import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

GENERATOR_EVERY, PENALTY_EVERY = 2, 4


def double(x):
    """Nearest-neighbour enlargement by two; its gradient is a plain sum over views (no atomics)."""
    batch, channels, height, width = x.shape
    return (
        x[:, :, :, None, :, None]
        .expand(batch, channels, height, 2, width, 2)
        .reshape(batch, channels, 2 * height, 2 * width)
    )


class Up(nn.Module):
    def __init__(self, wide_in, wide_out):
        super().__init__()
        self.first, self.second = nn.Conv2d(wide_in, wide_out, 3, padding=1), nn.Conv2d(
            wide_out, wide_out, 3, padding=1
        )
        self.norm1, self.norm2 = nn.GroupNorm(4, wide_in), nn.GroupNorm(4, wide_out)
        self.skip = nn.Conv2d(wide_in, wide_out, 1)

    def forward(self, x):
        y = self.first(double(F.silu(self.norm1(x))))
        return double(self.skip(x)) + self.second(F.silu(self.norm2(y)))


class Generator(nn.Module):
    def __init__(self, latent, widths):
        super().__init__()
        self.width = widths[0]
        self.entry = nn.Linear(latent, 16 * widths[0])
        self.stages = nn.Sequential(*(Up(a, b) for a, b in zip(widths, widths[1:])))
        self.image = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z):
        return torch.tanh(self.image(self.stages(self.entry(z).view(-1, self.width, 4, 4))))


class Down(nn.Module):
    """No normalisation, as the penalty on each image's gradient asks for."""

    def __init__(self, wide_in, wide_out):
        super().__init__()
        self.first = nn.Conv2d(wide_in, wide_in, 3, padding=1)
        self.second = nn.Conv2d(wide_in, wide_out, 4, stride=2, padding=1)
        self.skip = nn.Conv2d(wide_in, wide_out, 2, stride=2)

    def forward(self, x):
        y = self.second(F.leaky_relu(self.first(F.leaky_relu(x, 0.2)), 0.2))
        return (y + self.skip(x)) * 0.7071


class Discriminator(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.entry = nn.Conv2d(3, widths[0], 3, padding=1)
        self.stages = nn.Sequential(*(Down(a, b) for a, b in zip(widths, widths[1:])))
        self.score = nn.Linear(16 * widths[-1], 1)

    def forward(self, images):
        return self.score(F.leaky_relu(self.stages(self.entry(images)), 0.2).flatten(1)).squeeze(1)


def build(job):
    widths, latent, batch = job.pick((768, 768, 512, 256, 128, 64), (16, 8)), job.pick(256, 8), job.batch(96, 2)
    side = 4 << (len(widths) - 1)
    with job.device:
        generator, discriminator = Generator(latent, widths), Discriminator(widths[::-1])
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.99))
    for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.0, 0.99))
    job.keep(generator, discriminator)

    def train_discriminator(penalise):
        real = job.randn(batch, 3, side, side).requires_grad_(penalise)
        with torch.no_grad(), job.autocast():
            fake = generator(job.randn(batch, latent))
        with job.autocast():
            on_real = discriminator(real)
            loss = F.softplus(-on_real).mean() + F.softplus(discriminator(fake)).mean()
        if penalise:
            (gradient,) = torch.autograd.grad(on_real.sum(), real, create_graph=True)
            loss = loss + 5.0 * gradient.float().square().sum((1, 2, 3)).mean()
        loss.backward()
        for_discriminator.step()
        for_discriminator.zero_grad(set_to_none=True)
        return loss.detach()

    def train_generator():
        discriminator.requires_grad_(False)
        with job.autocast():
            loss = F.softplus(-discriminator(generator(job.randn(batch, latent)))).mean()
        loss.backward()
        discriminator.requires_grad_(True)
        for_generator.step()
        for_generator.zero_grad(set_to_none=True)
        return loss.detach()

    def step(i):
        loss = train_discriminator(penalise=i % PENALTY_EVERY == PENALTY_EVERY - 2)
        if i % GENERATOR_EVERY == GENERATOR_EVERY - 1:
            loss = loss + train_generator()
        return loss

    return step


if __name__ == "__main__":
    sys.exit(main("gan", build))
