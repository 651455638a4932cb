"""DeepSpeed's ZeRO. Arguments: STEPS STAGE."""

import sys

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

steps, stage = int(sys.argv[1]), int(sys.argv[2])
model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                     num_attention_heads=16, vocab_size=32000, use_cache=False))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True})
generator = torch.Generator().manual_seed(0)
for _ in range(steps):
    ids = torch.zeros(4, int(torch.randint(200, 1500, (1,), generator=generator)), dtype=torch.long, device="cuda")
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
