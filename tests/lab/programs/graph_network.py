"""PyTorch Geometric: attention over sampled neighbourhoods, whose sizes change from batch to batch. Arguments: STEPS."""

import sys

import torch
from torch_geometric.nn import GATv2Conv, global_mean_pool

steps = int(sys.argv[1])


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            GATv2Conv(256, 64, heads=4, edge_dim=32) for _ in range(4))
        self.head = torch.nn.Linear(256, 16)

    def forward(self, x, edges, features, batch, graphs):
        for layer in self.layers:
            x = torch.relu(layer(x, edges, features)) + x
        return self.head(global_mean_pool(x, batch, graphs))


model = Network().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(0)
for _ in range(steps):
    nodes = int(torch.randint(20000, 60000, (1,), generator=generator))
    edges = torch.randint(0, nodes, (2, 6 * nodes), generator=generator).cuda()
    batch = (torch.arange(nodes) * 32 // nodes).cuda()
    found = model(torch.randn(nodes, 256).cuda(), edges, torch.randn(6 * nodes, 32).cuda(), batch, 32)
    torch.nn.functional.cross_entropy(found, torch.zeros(32, dtype=torch.long, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
