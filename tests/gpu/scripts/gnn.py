"""A graph network over sampled neighbourhoods: nodes and edges differ in every step, as in any mini-batch trainer on
graphs, so no two steps ask for the same sizes."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn


class Convolution(nn.Module):
    """Mean over sampled neighbours, then a linear map of self and neighbourhood."""

    def __init__(self, wide_in, wide_out):
        super().__init__()
        self.own, self.near = nn.Linear(wide_in, wide_out), nn.Linear(wide_in, wide_out, bias=False)
        self.norm = nn.LayerNorm(wide_out)

    def forward(self, x, neighbours):
        return F.relu(self.norm(self.own(x) + self.near(x[neighbours].mean(1))))


def build(job):
    nodes = job.batch(60000, 300)
    degree, features, width, classes = job.sizes(degree=(8, 4), features=(128, 16), width=(512, 32), classes=(47, 7))
    with job.device:
        model = nn.ModuleList([Convolution(features, width), Convolution(width, width), Convolution(width, width)])
        head = nn.Linear(width, classes)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
    draw = random.Random(job.seed)
    job.keep(model, head)

    def step(_):
        count = draw.randrange(nodes // 2, nodes)
        x = job.randn(count, features)
        labels = torch.randint(classes, (count,), generator=job.generator, device=job.device)
        for layer in model:
            near = torch.randint(count, (count, degree), generator=job.generator, device=job.device)
            x = layer(x, near)
        loss = F.cross_entropy(head(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("gnn", build))
