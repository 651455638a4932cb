"""timm: a vision transformer or a convolutional net under autocast, sizes that change. Arguments: STEPS [MODEL]."""

import sys

import timm
import timm.optim
import timm.utils
import torch

steps, name = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "resnet50"
kwargs = {} if name.startswith("resnet") else {"dynamic_img_size": True}
model = timm.create_model(name, num_classes=1000, **kwargs).cuda().to(memory_format=torch.channels_last)
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-4)
ema = timm.utils.ModelEmaV3(model)
for step in range(steps):
    size = (160, 192, 224)[step % 3]
    images = torch.randn(64, 3, size, size, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), torch.zeros(64, dtype=torch.long, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    ema.update(model)
