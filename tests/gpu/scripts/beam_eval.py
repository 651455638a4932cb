"""Training with generation by beam search after every fourth step: at every token the key-value cache is gathered into
the order of the best beams and grows, in a batch that shrinks as prompts end, between steps that repeat exactly."""

import random
import sys

import torch
from common import main
from decoding import GrowingCache, next_logits
from models import Gpt, next_token_loss

SEARCH_EVERY = 4


@torch.no_grad()
def search(job, model, tokens, beams, counts):
    """Mean log-probability of the best continuations of `tokens` [prompts, length], the k-th by counts[k] tokens.

    `counts` must fall, so that those that go on are always the first.
    """
    cache, ended = GrowingCache(len(model.blocks)), []
    with job.autocast():
        logits = next_logits(model, cache, tokens)
        score, word = logits.float().log_softmax(-1).topk(beams)
        cache.reorder(torch.arange(len(tokens), device=job.device).repeat_interleave(beams))
        tokens = torch.cat((tokens.repeat_interleave(beams, dim=0), word.view(-1, 1)), dim=1)
        for made in range(2, counts[0] + 1):
            logits = next_logits(model, cache, tokens[:, -1:])
            every = score[:, :, None] + logits.float().log_softmax(-1).view(len(score), beams, -1)
            score, place = every.flatten(1).topk(beams)
            alive = sum(count > made for count in counts)
            ended.append(score[alive:, 0])
            score, place = score[:alive], place[:alive]
            first = torch.arange(0, alive * beams, beams, device=job.device)[:, None]
            rows = (first + place // logits.shape[-1]).flatten()
            cache.reorder(rows)
            tokens = torch.cat((tokens[rows], (place % logits.shape[-1]).view(-1, 1)), dim=1)
    return torch.cat(ended).mean()


def build(job):
    layers, width, heads = job.pick((12, 1024, 16), (2, 64, 4))
    vocabulary, length, batch = job.pick(32000, 97), job.pick(1024, 32), job.batch(6, 2)
    prompt, beams, longest = job.pick((256, 4, 48), (8, 2, 6))
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    draw = random.Random(job.seed)
    job.keep(model)

    def step(i):
        tokens = job.tokens(batch, length, vocabulary)
        with job.autocast():
            loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.detach()
        if i % SEARCH_EVERY == SEARCH_EVERY - 1:
            waiting = job.tokens(4 * batch, prompt, vocabulary)
            counts = sorted((draw.randint(longest // 2, longest) for _ in waiting), reverse=True)
            loss = loss + search(job, model, waiting, beams, counts)
        return loss

    return step


if __name__ == "__main__":
    sys.exit(main("beam_eval", build))
