"""A Llama-like model of 16 layers, width 2048, in bf16, every block recomputed in the backward pass; --recompute N:
only the first N of them, which is quicker and takes more memory."""

import sys

import torch
from common import main
from models import Llama, next_token_loss


def build(job):
    layers, width, heads, hidden = job.pick((16, 2048, 16, 5504), (2, 64, 4, 96))
    vocabulary, length, batch = job.pick(32000, 97), job.pick(2048, 32), job.batch(4, 2)
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
