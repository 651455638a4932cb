"""DistributedDataParallel, started by torchrun. Arguments: STEPS."""

import os
import sys

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel

steps = int(sys.argv[1])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = GPT2LMHeadModel(GPT2Config(n_embd=768, n_layer=8, n_head=12, use_cache=False)).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(steps):
    ids = torch.zeros(8, int(torch.randint(100, 1024, (1,), generator=generator)), dtype=torch.long, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
