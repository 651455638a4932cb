"""A BERT-large-like encoder whose sequence length is drawn anew for every step: the call sites repeat, sizes scale."""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from models import Gpt


def build(job):
    layers, width, heads = job.sizes(layers=(24, 2), width=(1024, 64), heads=(16, 4))
    vocabulary, longest, batch = job.sizes(vocabulary=(30522, 97), longest=(512, 64), batch=(16, 2))
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, longest, causal=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    draw = random.Random(job.seed)
    job.keep(model)

    def step(_):
        length = draw.randrange(longest // 4, longest + 1, 8)
        tokens = job.tokens(batch, length, vocabulary)
        masked = torch.rand(tokens.shape, generator=job.generator, device=job.device) < 0.15
        target = torch.where(masked, tokens, -100)
        with job.autocast():
            logits = model(torch.where(masked, 0, tokens))
            loss = F.cross_entropy(logits.view(-1, vocabulary), target.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("bert_var", build))
