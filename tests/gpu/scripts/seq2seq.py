"""An encoder-decoder in fp16: a gradient scaler, dropout, label smoothing, sentences padded to one of five lengths on
each side, two accumulation passes, and a greedy translation of a small batch every eighth step."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

LENGTHS = (64, 128, 192, 256, 384)
PASSES, TRANSLATE_EVERY = 2, 8


class Cross(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, memory, causal=False):
        split = lambda t: t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)
        k, v = self.kv(memory).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(k), split(v), is_causal=causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Pre-norm; a decoder's layer also attends to what the encoder made."""

    def __init__(self, width, heads, decodes):
        super().__init__()
        self.own, self.other = Cross(width, heads), Cross(width, heads) if decodes else None
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decodes else 2))
        self.drop = nn.Dropout(0.1)

    def forward(self, x, memory=None):
        y = self.norms[0](x)
        x = x + self.drop(self.own(y, y, causal=memory is not None))
        if memory is not None:
            x = x + self.drop(self.other(self.norms[2](x), memory))
        return x + self.drop(self.mlp(self.norms[1](x)))


class Translator(nn.Module):
    def __init__(self, layers, width, heads, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(max(LENGTHS), width)
        self.encoder = nn.ModuleList(Layer(width, heads, decodes=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, decodes=True) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def embedded(self, tokens):
        return self.token(tokens) + self.position.weight[: tokens.shape[1]]

    def encode(self, source):
        x = self.embedded(source)
        for layer in self.encoder:
            x = layer(x)
        return x

    def decode(self, target, memory):
        x = self.embedded(target)
        for layer in self.decoder:
            x = layer(x, memory)
        return self.head(x)


def build(job):
    layers, width, heads, vocabulary = job.pick((8, 1024, 16, 32000), (2, 32, 4, 97))
    batch, shrink, written = job.batch(40, 2), job.pick(1, 16), job.pick(12, 3)
    with job.device:
        model = Translator(layers, width, heads, vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    scaler = torch.amp.GradScaler(job.device.type, init_scale=1024.0, enabled=job.cuda)
    draw = random.Random(job.seed)
    job.keep(model)

    def autocast():
        return torch.autocast(job.device.type, dtype=torch.float16 if job.cuda else torch.bfloat16)

    @torch.no_grad()
    def translate(source):
        model.eval()
        target = source[:, :1]
        with autocast():
            memory = model.encode(source)
            for _ in range(written):
                target = torch.cat((target, model.decode(target, memory)[:, -1:].argmax(-1)), dim=1)
        model.train()
        return target.float().mean() / vocabulary

    def step(i):
        total = torch.zeros((), device=job.device)
        for _ in range(PASSES):
            source = job.tokens(batch, draw.choice(LENGTHS) // shrink, vocabulary)
            target = job.tokens(batch, draw.choice(LENGTHS) // shrink, vocabulary)
            with autocast():
                scores = model.decode(target[:, :-1], model.encode(source))
                loss = F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1) / PASSES
            scaler.scale(loss).backward()
            total += loss.detach()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return total + translate(source[: max(1, batch // 4)]) if i % TRANSLATE_EVERY == 7 else total

    return step


if __name__ == "__main__":
    sys.exit(main("seq2seq", build))
