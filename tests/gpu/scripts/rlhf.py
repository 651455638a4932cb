"""Reinforcement learning from a reward: answers are generated token by token with a key-value cache that grows by
torch.cat (nothing is ever asked for twice), then four policy updates run, each as long as its longest answer."""

import copy
import random
import sys

import torch
import torch.nn.functional as F
from common import main
from decoding import FixedCache, GrowingCache, next_logits, sample
from models import Gpt

UPDATES = 4


def log_probability(model, tokens):
    """[batch, length - 1]: of each token but the first, given those before it."""
    logits = model(tokens)[:, :-1]
    flat = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1), reduction="none")
    return -flat.view(tokens.shape[0], -1)


def advantage(tokens, prompt):
    """Normalised over the batch; the reward is for answers with many different neighbours and for small numbers."""
    answer = tokens[:, prompt:].float()
    reward = (answer[:, 1:] != answer[:, :-1]).float().mean(1) - answer.mean(1) / (answer.amax() + 1)
    return (reward - reward.mean()) / (reward.std() + 1e-4)


@torch.no_grad()
def roll_out(job, model, cache, tokens, count):
    """`tokens` with `count` sampled ones behind them."""
    with job.autocast():
        logits = next_logits(model, cache, tokens)
        for _ in range(count):
            token = sample(logits, job.generator)
            tokens = torch.cat((tokens, token), dim=1)
            logits = next_logits(model, cache, token)
    return tokens


def build(job, growing=True):
    layers, width, heads = job.pick((8, 1536, 12), (2, 64, 4))
    vocabulary, prompt, batch = job.pick(32000, 97), job.pick(192, 8), job.batch(64, 4)
    shortest, longest = job.pick((24, 64), (3, 9))
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, prompt + longest)
    reference = copy.deepcopy(model).to(torch.bfloat16).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    draw = random.Random(job.seed)
    job.keep(model)

    def update(tokens, gain):
        with torch.no_grad(), job.autocast():
            before = log_probability(reference, tokens)
        with job.autocast():
            after = log_probability(model, tokens)
            old = after.detach()
            ratio = (after - old).exp()
            gained = torch.minimum(ratio * gain[:, None], ratio.clamp(0.8, 1.2) * gain[:, None])
            away = (before - after).exp() - (before - after) - 1
            loss = (0.02 * away - gained)[:, prompt - 1 :].mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def step(_):
        lengths = sorted(draw.randint(shortest, longest) for _ in range(batch))
        cache = GrowingCache(layers) if growing else FixedCache(layers, prompt + longest)
        tokens = roll_out(job, model, cache, job.tokens(batch, prompt, vocabulary), lengths[-1])
        del cache
        gain, part, total = advantage(tokens, prompt), batch // UPDATES, torch.zeros((), device=job.device)
        for k in range(UPDATES):  # answers of like length together, each part cut to its longest
            rows = slice(k * part, (k + 1) * part)
            total += update(tokens[rows, : prompt + lengths[(k + 1) * part - 1]], gain[rows])
        return total + tokens.float().mean()

    return step


if __name__ == "__main__":
    sys.exit(main("rlhf", build))
