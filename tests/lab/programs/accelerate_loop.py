"""A loop of Accelerate's: an encoder, bf16, accumulation over two batches, lengths that vary. Arguments: STEPS."""

import sys

import torch
from accelerate import Accelerator
from transformers import BertConfig, BertForMaskedLM

steps = int(sys.argv[1])
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = BertForMaskedLM(BertConfig(hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, intermediate_size=4096))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
generator = torch.Generator().manual_seed(0)
batches = [torch.zeros(16, int(torch.randint(64, 512, (1,), generator=generator)), dtype=torch.long)
           for _ in range(2 * steps)]
loader = torch.utils.data.DataLoader(batches, batch_size=None)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for ids in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(input_ids=ids, labels=ids).loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
