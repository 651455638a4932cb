"""FSDP2 of a decoder over the whole world. Arguments: STEPS [recompute]. One rank: stalloc fit --world-size."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

steps, recompute = int(sys.argv[1]), "recompute" in sys.argv
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(hidden_size=2048, intermediate_size=5504, num_hidden_layers=12,
                                         num_attention_heads=16, vocab_size=32000, use_cache=False))
if recompute:
    model.gradient_checkpointing_enable()
model.train()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.model.layers:
    fully_shard(block, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(steps):
    ids = torch.zeros(2, 1536, dtype=torch.long, device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
