"""A GPT written out in one file, as nanoGPT's: AdamW, accumulation, evaluation. Arguments: STEPS [compile] [recompute]."""

import sys

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

steps, recompute = int(sys.argv[1]), "recompute" in sys.argv
WIDTH, HEADS, LAYERS, WORDS, LENGTH = 768, 12, 12, 50304, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.attn(self.ln_1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h, self.ln = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        return F.linear(self.ln(x), self.wte.weight)


def loss_of(model, ids):
    with torch.autocast("cuda", torch.bfloat16):
        return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


model = GPT().cuda()
if "compile" in sys.argv:
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(steps):
    for _ in range(2):
        (loss_of(model, torch.zeros(8, LENGTH, dtype=torch.long, device="cuda")) / 2).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 9:
        model.eval()
        with torch.no_grad():
            loss_of(model, torch.zeros(16, LENGTH, dtype=torch.long, device="cuda"))
        model.train()
