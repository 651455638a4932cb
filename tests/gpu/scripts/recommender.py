"""A recommender: large embedding tables with sparse gradients, bags of changing length, features crossed in pairs, a
sparse optimizer for the tables beside a dense one for the rest. What a table's gradient takes differs in every step."""

import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn


class Recommender(nn.Module):
    def __init__(self, tables, rows, width, dense, hidden):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width, sparse=True) for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(dense, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.above = nn.Sequential(
            nn.Linear(pairs + width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )
        self.register_buffer("pairs", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, dense, bags):
        x = self.below(dense)
        features = torch.stack([x] + [table(bag).mean(dim=1) for table, bag in zip(self.tables, bags)], dim=1)
        crossed = features @ features.transpose(1, 2)
        rows, columns = self.pairs
        width = crossed.shape[1]
        return self.above(torch.cat((crossed.flatten(1).index_select(1, rows * width + columns), x), 1)).squeeze(1)


def build(job):
    tables, rows, width, dense, hidden = job.pick((16, 400_000, 128, 64, 2048), (3, 50, 8, 4, 16))
    batch, longest = job.batch(16384, 4), job.pick(12, 3)
    with job.device:
        model = Recommender(tables, rows, width, dense, hidden)
    sparse = torch.optim.SparseAdam(list(model.tables.parameters()), lr=1e-3)
    others = torch.optim.AdamW([*model.below.parameters(), *model.above.parameters()], lr=1e-3)
    lengths = torch.Generator().manual_seed(job.seed)
    job.keep(model)

    def step(_):
        bags = []
        for length in torch.randint(1, longest + 1, (tables,), generator=lengths).tolist():
            bags.append(job.tokens(batch, length, rows))
        clicked = (job.randn(batch) > 0).float()
        loss = F.binary_cross_entropy_with_logits(model(job.randn(batch, dense), bags), clicked)
        loss.backward()
        for optimizer in (sparse, others):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("recommender", build))
