"""Reinforcement learning from pixels: a rollout that is collected while the last one is still there, advantages
computed backwards in time, then four epochs of shuffled minibatches. Buffers outlive the iteration that made them."""

import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn

EPOCHS, MINIBATCHES = 4, 4


class Policy(nn.Module):
    def __init__(self, channels, hidden, actions):
        super().__init__()
        self.eyes = nn.Sequential(
            nn.Conv2d(channels, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(hidden), nn.ReLU(),
        )  # fmt: skip
        self.actor, self.critic = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, frames):
        x = self.eyes(frames)
        return self.actor(x).log_softmax(-1), self.critic(x).squeeze(-1)


def build(job):
    environments, horizon, channels, side = job.pick((192, 48, 4, 84), (4, 3, 1, 36))
    hidden, actions = job.pick((1024, 18), (8, 4))
    with job.device:
        policy = Policy(channels, hidden, actions)
        policy(torch.zeros(1, channels, side, side))  # the lazy layer takes its size
    optimizer = torch.optim.Adam(policy.parameters(), lr=2.5e-4, eps=1e-5)
    state = {"frames": job.randn(environments, channels, side, side), "buffers": None}
    job.keep(policy)

    @torch.no_grad()
    def collect():
        seen, acted, said, worth, paid = [], [], [], [], []
        for _ in range(horizon):
            logits, value = policy(state["frames"])
            action = torch.multinomial(logits.exp(), 1, generator=job.generator).squeeze(1)
            seen.append(state["frames"])
            acted.append(action)
            said.append(logits.gather(1, action[:, None]).squeeze(1))
            worth.append(value)
            paid.append(job.randn(environments))
            # The world moves on: the oldest channel gives way.
            newest = job.randn(environments, 1, side, side) + action.view(-1, 1, 1, 1) / actions
            state["frames"] = torch.cat((state["frames"][:, 1:], newest), dim=1)
        after, advantage, advantages = policy(state["frames"])[1], 0.0, []
        for reward, value in zip(reversed(paid), reversed(worth)):
            advantage = reward + 0.99 * after - value + 0.99 * 0.95 * advantage
            advantages.append(advantage)
            after = value
        advantages = torch.stack(advantages[::-1])
        buffers = [torch.stack(part) for part in (seen, acted, said, worth)] + [advantages]
        return [buffer.flatten(0, 1) for buffer in buffers]

    def loss_of(frames, action, said, worth, advantage):
        logits, value = policy(frames)
        ratio = (logits.gather(1, action[:, None]).squeeze(1) - said).exp()
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.minimum(ratio * scaled, ratio.clamp(0.9, 1.1) * scaled).mean()
        entropy = -(logits.exp() * logits).sum(-1).mean()
        return F.mse_loss(value, worth + advantage) * 0.5 - gain - 0.01 * entropy

    def step(_):
        state["buffers"] = collect()  # the last iteration's are freed only now
        count, total = environments * horizon, torch.zeros((), device=job.device)
        for _ in range(EPOCHS):
            order = torch.randperm(count, generator=job.generator, device=job.device)
            for chosen in order.chunk(MINIBATCHES):
                loss = loss_of(*(buffer[chosen] for buffer in state["buffers"]))
                loss.backward()
                torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                total += loss.detach()
        return total / (EPOCHS * MINIBATCHES)

    return step


if __name__ == "__main__":
    sys.exit(main("ppo", build))
