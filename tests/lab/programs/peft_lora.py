"""PEFT: LoRA on a decoder, lengths that vary. Arguments: STEPS [recompute]."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

steps, recompute = int(sys.argv[1]), "recompute" in sys.argv
model = LlamaForCausalLM(LlamaConfig(hidden_size=2048, intermediate_size=5504, num_hidden_layers=16,
                                     num_attention_heads=16, vocab_size=32000, use_cache=False)).bfloat16()
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).cuda()
if recompute:
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
generator = torch.Generator().manual_seed(0)
for _ in range(steps):
    ids = torch.zeros(4, int(torch.randint(200, 2000, (1,), generator=generator)), dtype=torch.long, device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
