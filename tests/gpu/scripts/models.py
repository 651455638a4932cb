"""Transformer parts that several workloads share. Plain PyTorch, no dropout (the losses must repeat bit for bit)."""

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, causal=True, bias=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, rotary=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A GPT-2 block (pre-norm, GELU); with causal=False, an encoder's."""

    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """GPT-2: learnt positions, tied head. causal=False makes a BERT-like encoder of it."""

    def __init__(self, layers, width, heads, vocabulary, context, causal=True):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(_gpt_init)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _gpt_init(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


def rotary_tables(length, head_width, device, dtype):
    frequency = 10000.0 ** (-torch.arange(0, head_width, 2, device=device, dtype=torch.float32) / head_width)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.attention = Attention(width, heads, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Llama: rotary positions, RMS norm, gated MLP. The first `recompute` blocks keep their input only and compute the
    rest again on the way back."""

    def __init__(self, layers, width, heads, hidden, vocabulary, recompute=0):
        super().__init__()
        self.head_width, self.recompute = width // heads, recompute
        self.token = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, hidden) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(_gpt_init)

    def forward(self, tokens):
        x = self.token(tokens)
        rotary = rotary_tables(tokens.shape[1], self.head_width, x.device, x.dtype)
        for i, block in enumerate(self.blocks):
            if i < self.recompute:
                x = torch.utils.checkpoint.checkpoint(block, x, rotary, use_reentrant=False)
            else:
                x = block(x, rotary)
        return self.head(self.norm(x))


def next_token_loss(logits, tokens):
    """Cross-entropy of each position against the following token."""
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
