"""Kinds of iteration: four accumulation passes, an optimizer step, and after every third step an evaluation of another
batch size without gradients."""

import sys

import torch
from common import main
from models import Gpt, next_token_loss

ACCUMULATE, EVALUATE_EVERY = 4, 3


def build(job):
    layers, width, heads = job.sizes(layers=(12, 2), width=(1024, 64), heads=(16, 4))
    vocabulary, length, batch = job.sizes(vocabulary=(50257, 97), length=(1024, 32), batch=(4, 2))
    evaluation_batch = 3 * batch
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    job.keep(model)

    def step(i):
        total = torch.zeros((), device=job.device)
        for _ in range(ACCUMULATE):
            tokens = job.tokens(batch, length, vocabulary)
            with job.autocast():
                loss = next_token_loss(model(tokens), tokens) / ACCUMULATE
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if i % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            model.eval()
            with torch.no_grad(), job.autocast():
                tokens = job.tokens(evaluation_batch, length, vocabulary)
                total += next_token_loss(model(tokens), tokens)
            model.train()
        return total

    return step


if __name__ == "__main__":
    sys.exit(main("eval_mix", build))
