"""Captured blocks in an eager program: a transformer's blocks are CUDA graphs in both directions, whose memory is taken
once and stays, beside an eager loss over a changing number of classes, eager AdamW, and eager evaluations."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from models import Gpt

EVALUATE_EVERY = 4


def capture(job, blocks, shape):
    """The blocks, each captured for one shape; in evaluation mode they run as they did before."""
    if not job.cuda:
        return blocks
    samples = tuple((job.randn(*shape).requires_grad_(),) for _ in blocks)
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        return torch.cuda.make_graphed_callables(tuple(blocks), samples)


def build(job):
    layers, width, heads = job.pick((16, 1024, 16), (2, 64, 4))
    vocabulary, length, batch = job.pick(32000, 97), job.pick(512, 32), job.batch(16, 2)
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
    blocks = capture(job, model.blocks, (batch, length, width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = random.Random(job.seed)
    job.keep(model)

    def forward(tokens):
        x = model.token(tokens) + model.position.weight[: tokens.shape[1]]
        for block in blocks:
            x = block(x)
        return model.norm(x)

    def sampled_loss(x, tokens):
        """Cross-entropy against a drawn part of the vocabulary and the true words of every second position."""
        classes = draw.randrange(vocabulary // 4, vocabulary)
        logits = F.linear(x[:, :-1:2], model.head.weight[:classes])
        target = torch.where(tokens[:, 1::2] < classes, tokens[:, 1::2], -100)
        return F.cross_entropy(logits.reshape(-1, classes), target.reshape(-1))

    def step(i):
        tokens = job.tokens(batch, length, vocabulary)
        with job.autocast():
            loss = sampled_loss(forward(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = loss.detach()
        if i % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            model.eval()
            with torch.no_grad(), job.autocast():
                tokens = job.tokens(2 * batch, length // 2, vocabulary)
                total = total + sampled_loss(forward(tokens), tokens)
            model.train()
        return total

    return step


if __name__ == "__main__":
    sys.exit(main("graph_capture", build))
