"""GPT-2 medium: 24 layers, width 1024, batch 8 x 1024 tokens, autocast to bf16, AdamW. The dense, static case."""

import sys

import torch
from common import main
from models import Gpt, next_token_loss


def build(job):
    layers, width, heads = job.sizes(layers=(24, 2), width=(1024, 64), heads=(16, 4))
    vocabulary, length, batch = job.sizes(vocabulary=(50257, 97), length=(1024, 32), batch=(8, 2))
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    job.keep(model)

    def step(_):
        tokens = job.tokens(batch, length, vocabulary)
        with job.autocast():
            loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("gpt2", build))
