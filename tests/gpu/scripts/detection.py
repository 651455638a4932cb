"""A detector's memory: images of changing size through a convolutional pyramid, then a changing number of regions cut
out of its maps and classified. Crops are gathers, so that the step stays deterministic."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn


def stage(wide_in, wide_out):
    return nn.Sequential(
        nn.Conv2d(wide_in, wide_out, 3, stride=2, padding=1, bias=False),
        nn.GroupNorm(8, wide_out),
        nn.ReLU(inplace=True),
        nn.Conv2d(wide_out, wide_out, 3, padding=1, bias=False),
        nn.GroupNorm(8, wide_out),
        nn.ReLU(inplace=True),
    )


class Detector(nn.Module):
    def __init__(self, width, classes, side=7):
        super().__init__()
        widths = [3, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.ModuleList(stage(a, b) for a, b in zip(widths, widths[1:]))
        self.laterals = nn.ModuleList(nn.Conv2d(w, 4 * width, 1) for w in widths[2:])
        self.side = side
        self.box = nn.Sequential(nn.Linear(4 * width * side * side, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        self.score = nn.Linear(1024, classes)

    def crop(self, level, corner):
        """[regions, channels * side * side]: a side x side window of `level` at each (image, row, column) corner."""
        offset = torch.arange(self.side, device=level.device)
        image, row, column = corner.unbind(1)
        rows, columns = (row[:, None] + offset)[:, :, None], (column[:, None] + offset)[:, None, :]
        return level.permute(0, 2, 3, 1)[image[:, None, None], rows, columns].flatten(1)

    def forward(self, images, draw_corners):
        x, scores = images, []
        for i, stage_ in enumerate(self.stages):
            x = stage_(x)
            if i:
                level = self.laterals[i - 1](x)
                scores.append(self.score(self.box(self.crop(level, draw_corners(level, self.side)))))
        return torch.cat(scores)


def build(job):
    width, classes, batch = job.sizes(width=(64, 8), classes=(91, 5), batch=(8, 1))
    small, large, regions = job.sizes(small=(512, 128), large=(1024, 192), regions=(512, 12))
    with job.device:
        model = Detector(width, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    draw = random.Random(job.seed)
    job.keep(model)

    def corners(level, side):
        count = draw.randrange(regions // 2, regions)
        sizes = (level.shape[0], level.shape[2] - side, level.shape[3] - side)
        drawn = [torch.randint(max(1, n), (count,), generator=job.generator, device=job.device) for n in sizes]
        return torch.stack(drawn, 1)

    def step(_):
        height, breadth = (draw.randrange(small, large + 1, 32) for _ in range(2))
        images = job.randn(batch, 3, height, breadth)
        with job.autocast():
            scores = model(images, corners)
            labels = torch.randint(classes, (scores.shape[0],), generator=job.generator, device=job.device)
            loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("detection", build))
