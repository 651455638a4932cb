"""Side streams: batches are copied from pinned memory on a prefetch stream, statistics of the logits are taken on a
metrics stream, and both tell the allocator by record_stream. Memory that is reused before the other stream is done
shows as a changed loss, metric or checksum."""

import sys

import torch
from common import main
from models import Gpt, next_token_loss


class Prefetcher:
    """Keeps one batch ahead. The batch is allocated on the side stream and used on the main one."""

    def __init__(self, job, batch, length, vocabulary):
        self.job, self.size, self.vocabulary = job, (batch, length), vocabulary
        self.generator = torch.Generator().manual_seed(job.seed)
        self.stream = torch.cuda.Stream() if job.cuda else None
        self.next = self._load()

    def _load(self):
        host = torch.randint(self.vocabulary, self.size, generator=self.generator)
        scale = torch.rand(*self.size, 64, generator=self.generator)  # a second, larger input
        if not self.job.cuda:
            return host, scale
        with torch.cuda.stream(self.stream):
            batch = tuple(t.pin_memory().to(self.job.device, non_blocking=True) for t in (host, scale))
            return batch[0], batch[1] * 0.5 + 0.75

    def take(self):
        if self.job.cuda:
            main_stream = torch.cuda.current_stream()
            main_stream.wait_stream(self.stream)
            for tensor in self.next:
                tensor.record_stream(main_stream)
        batch, self.next = self.next, None
        self.next = self._load()
        return batch


class Metrics:
    """Entropy and accuracy on a side stream, accumulated on the device and never waited for in the step."""

    def __init__(self, job):
        self.stream = torch.cuda.Stream() if job.cuda else None
        self.total = torch.zeros(2, device=job.device, dtype=torch.float64)
        job.keep(self.total)

    @torch.no_grad()
    def _add(self, logits, tokens):
        log_probability = logits[:, :-1].float().log_softmax(-1)
        entropy = -(log_probability.exp() * log_probability).sum(-1).mean()
        hits = (log_probability.argmax(-1) == tokens[:, 1:]).float().mean()
        self.total += torch.stack([entropy, hits])

    def add(self, logits, tokens):
        if self.stream is None:
            return self._add(logits, tokens)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._add(logits, tokens)
        logits.record_stream(self.stream)
        tokens.record_stream(self.stream)


def build(job):
    layers, width, heads = job.sizes(layers=(12, 2), width=(1024, 64), heads=(16, 4))
    vocabulary, length, batch = job.sizes(vocabulary=(32000, 97), length=(1024, 32), batch=(8, 2))
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
        project = torch.nn.Linear(64, width)
    optimizer = torch.optim.AdamW([*model.parameters(), *project.parameters()], lr=3e-4)
    metrics, prefetcher = Metrics(job), Prefetcher(job, batch, length, vocabulary)
    job.keep(model, project)

    def step(_):
        tokens, scale = prefetcher.take()
        with job.autocast():
            logits = model(tokens) * project(scale).mean(-1, keepdim=True).add(1)
            metrics.add(logits.detach(), tokens)
            loss = next_token_loss(logits, tokens)
        del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("side_streams", build))
