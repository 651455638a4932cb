"""ResNet-50 (torchvision), channels-last, autocast to bf16, SGD with momentum: convolution workspaces and big maps."""

import sys

import torch
import torch.nn.functional as F
import torchvision
from common import main


def build(job):
    classes, side, batch = job.sizes(classes=(1000, 10), side=(224, 32), batch=(192, 2))
    with job.device:
        model = (torchvision.models.resnet18 if job.tiny else torchvision.models.resnet50)(num_classes=classes)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    job.keep(model)

    def step(_):
        images = job.randn(batch, 3, side, side).to(memory_format=torch.channels_last)
        labels = torch.randint(classes, (batch,), generator=job.generator, device=job.device)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("resnet50", build))
