"""torch.compile in default mode. Arguments: STEPS transformer|cnn|fsdp2|flex. fsdp2 wants a world of several ranks."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

steps, kind = int(sys.argv[1]), sys.argv[2]
WIDTH, WORDS = 1024, 32000


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, -1, 64).permute(2, 0, 3, 1, 4)
        if kind == "flex":
            from torch.nn.attention.flex_attention import flex_attention

            y = flex_attention(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


if kind == "cnn":
    layers, channels = [], 3
    for wider in (64, 128, 256):
        layers += [nn.Conv2d(channels, wider, 3, 2, 1), nn.BatchNorm2d(wider), nn.ReLU()]
        channels = wider
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)).cuda()
    batch = lambda: (torch.randn(32, 3, 128, 128, device="cuda"), torch.randint(0, 1000, (32,), device="cuda"))
else:
    blocks = [Block() for _ in range(6)]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.Linear(WIDTH, WORDS, bias=False)).cuda()
    batch = lambda: [torch.randint(0, WORDS, (4, 512), device="cuda")] * 2
if kind == "fsdp2":
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("nccl")
    for block in model[1:-1]:
        block.compile()
        fully_shard(block)
    fully_shard(model)
else:
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for _ in range(steps):
    inputs, targets = batch()
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
a, r = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
print(f"{kind}: peak live {a / 2**30:.3f} GiB, reserved {r / 2**30:.3f} GiB, fragmentation {100 * (1 - a / r):.2f} %")
