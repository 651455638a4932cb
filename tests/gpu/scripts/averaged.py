"""An image classifier the way recipes grow: mixed-up batches, batch norm, weights averaged by their exponential mean, a
last batch of an epoch that is smaller, a validation of the averaged model after each epoch, and a checkpoint of model,
average and optimizer copied to the host."""

import copy
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

EPOCH = 6


class Inverted(nn.Module):
    """A mobile network's block: widened, filtered channel by channel, weighted, narrowed again."""

    def __init__(self, wide_in, wide_out, stride, widen=4):
        super().__init__()
        inner = wide_in * widen
        self.body = nn.Sequential(
            nn.Conv2d(wide_in, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.SiLU(),
        )  # fmt: skip
        self.weigh = nn.Sequential(nn.Linear(inner, wide_in), nn.SiLU(), nn.Linear(wide_in, inner), nn.Sigmoid())
        self.narrow = nn.Sequential(nn.Conv2d(inner, wide_out, 1, bias=False), nn.BatchNorm2d(wide_out))
        self.skips = stride == 1 and wide_in == wide_out

    def forward(self, x):
        y = self.body(x)
        y = self.narrow(y * self.weigh(y.mean((2, 3)))[:, :, None, None])
        return x + y if self.skips else y


def build(job):
    stages = job.pick(((32, 2), (64, 3), (128, 4), (256, 6), (512, 3)), ((8, 1), (16, 1)))
    batch, side, classes = job.batch(128, 4), job.pick(224, 32), job.pick(1000, 7)
    layers, width = [nn.Conv2d(3, stages[0][0], 3, 2, 1, bias=False)], stages[0][0]
    for wide, depth in stages:
        for k in range(depth):
            layers.append(Inverted(width, wide, 2 if k == 0 else 1))
            width = wide
    model = nn.Sequential(*layers).to(job.device)
    head = nn.Linear(width, classes).to(job.device)
    trained = nn.ModuleList((model, head))
    average = copy.deepcopy(trained).requires_grad_(False).eval()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    pairs = [list(average.parameters()), list(trained.parameters())]
    job.keep(trained, average)

    def scores(modules, images):
        return modules[1](modules[0](images).mean((2, 3)))

    @torch.no_grad()
    def validate():
        total = torch.zeros((), device=job.device)
        for _ in range(2):
            with job.autocast():
                total += scores(average, job.randn(2 * batch, 3, side, side)).float().square().mean()
        return total

    def checkpoint():
        state = {"model": trained.state_dict(), "average": average.state_dict(), "momentum": optimizer.state_dict()}
        return torch.utils._pytree.tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, state)

    def step(i):
        last = i % EPOCH == EPOCH - 1
        count = max(1, batch * 3 // 8) if last else batch
        images, labels = job.randn(count, 3, side, side), job.tokens(1, count, classes)[0]
        share = 0.3
        images = share * images + (1 - share) * images.flip(0)
        with job.autocast():
            y = scores(trained, images)
        loss = share * F.cross_entropy(y.float(), labels) + (1 - share) * F.cross_entropy(y.float(), labels.flip(0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(*pairs, 0.01)
        loss = loss.detach()
        if last:
            loss = loss + validate()
            checkpoint()
        return loss

    return step


if __name__ == "__main__":
    sys.exit(main("averaged", build))
