"""A length curriculum: the sequence grows by sixteen tokens every second step, in batches of at most so many tokens: no
pattern is seen more than twice, and memory creeps up and falls back as the batch loses a sequence."""

import sys

import torch
from common import main
from models import Gpt, next_token_loss

GROWS_EVERY, GROWS_BY = 2, 16


def build(job):
    layers, width, heads = job.pick((16, 1024, 16), (2, 64, 4))
    vocabulary, first, longest = job.pick((32000, 256, 1024), (97, 16, 96))
    tokens_a_step = first * job.batch(24, 3)
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    job.keep(model)

    def step(i):
        length = min(longest, first + GROWS_BY * (i // GROWS_EVERY))
        tokens = job.tokens(max(1, tokens_a_step // length), length, vocabulary)
        with job.autocast():
            loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("curriculum", build))
