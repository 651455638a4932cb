"""Point clouds: voxels that are found anew in every step (unique), sums over them by index, points dropped where a score
says so. How much there is of everything is known only when it has been counted on the device."""

import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn


class Gather(nn.Module):
    """Each point from its voxel's mean: a layer over points, a sum per voxel, a layer over both."""

    def __init__(self, width_in, width):
        super().__init__()
        self.point, self.both = nn.Linear(width_in, width), nn.Linear(2 * width, width)

    def forward(self, x, voxel, voxels):
        y = F.relu(self.point(x))
        count = torch.zeros(voxels, device=x.device).index_add(0, voxel, torch.ones_like(voxel, dtype=torch.float32))
        mean = torch.zeros(voxels, y.shape[1], device=x.device).index_add(0, voxel, y.float()) / count[:, None]
        return F.relu(self.both(torch.cat((y, mean[voxel].to(y.dtype)), dim=1)))


class Net(nn.Module):
    def __init__(self, width, levels, classes):
        super().__init__()
        sizes = [3] + [width * 2**k for k in range(levels)]
        self.levels = nn.ModuleList(Gather(a, b) for a, b in zip(sizes, sizes[1:]))
        self.scores = nn.ModuleList(nn.Linear(b, 1) for b in sizes[1:])
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, points, labels):
        x, place = points, points
        for k, (level, score) in enumerate(zip(self.levels, self.scores)):
            cell = (place * (32 >> k)).floor().long().clamp_(-512, 511) + 512
            _, voxel = torch.unique((cell[:, 0] * 1024 + cell[:, 1]) * 1024 + cell[:, 2], return_inverse=True)
            x = level(x, voxel, int(voxel.max()) + 1)
            weight = score(x).squeeze(1)
            kept = (weight > weight.median()).nonzero().squeeze(1)
            x, place, labels = x[kept] * weight[kept, None].sigmoid(), place[kept], labels[kept]
        return F.cross_entropy(self.head(x).float(), labels)


def build(job):
    width, levels, classes, points = job.pick((128, 3, 40, 700_000), (8, 2, 5, 300))
    with job.device:
        model = Net(width, levels, classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    draw = torch.Generator().manual_seed(job.seed)
    job.keep(model)

    def step(_):
        count = int(points * (0.6 + 0.8 * float(torch.rand((), generator=draw))))
        cloud = job.randn(count, 3)
        with job.autocast():
            loss = model(cloud, (cloud[:, 0] > 0).long() + 2 * (cloud[:, 1] > 0).long())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("point_cloud", build))
