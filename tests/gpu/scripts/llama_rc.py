"""A Llama-like model of 16 layers, width 2048, in bf16, every block recomputed in the backward pass; --recompute N:
only the first N of them, which is quicker and takes more memory."""

import sys

import torch
from common import main
from models import Llama, next_token_loss


def build(job):
    layers, width, heads, hidden = job.sizes(layers=(16, 2), width=(2048, 64), heads=(16, 4), hidden=(5504, 96))
    vocabulary, length, batch = job.sizes(vocabulary=(32000, 97), length=(2048, 32), batch=(4, 2))
    with job.device:
        model = Llama(layers, width, heads, hidden, vocabulary, job.recompute(layers)).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    job.keep(model)

    def step(_):
        tokens = job.tokens(batch, length, vocabulary)
        loss = next_token_loss(model(tokens).float(), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("llama_rc", build))
