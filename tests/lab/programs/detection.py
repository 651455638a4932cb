"""torchvision's RetinaNet: images of many sizes, boxes, focal loss. Arguments: STEPS."""

import sys

import torch
from torchvision.models.detection import retinanet_resnet50_fpn_v2

steps = int(sys.argv[1])
model = retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, num_classes=20, min_size=480, max_size=800).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
generator = torch.Generator().manual_seed(0)
for _ in range(steps):
    images, targets = [], []
    for _ in range(4):
        height, width = torch.randint(300, 800, (2,), generator=generator).tolist()
        images.append(torch.randn(3, height, width).cuda())
        corners = torch.rand(5, 2, generator=generator) * 100
        boxes = torch.cat([corners, corners + 50], 1)
        targets.append({"boxes": boxes.cuda(), "labels": torch.ones(5, dtype=torch.long).cuda()})
    sum(model(images, targets).values()).backward()
    optimizer.step()
    optimizer.zero_grad()
