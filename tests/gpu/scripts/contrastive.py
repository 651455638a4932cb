"""Two towers, image and text, trained on a large batch by gradient caching: both towers run forward in chunks without a
graph, the loss runs alone, then every chunk runs again; and a queue of past vectors is taken anew in every step."""

import sys

import torch
import torch.nn.functional as F
from common import main
from models import Block
from torch import nn
from vit_multires import Vit


class TextTower(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, length, outputs):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, tokens):
        x = self.blocks(self.token(tokens) + self.position)
        return self.head(self.norm(x)[:, -1])


def build(job):
    layers, width, heads, outputs = job.pick((8, 768, 12, 512), (2, 64, 4, 32))
    vocabulary, length = job.pick((49408, 77), (97, 12))
    patch, side, remembered = job.pick((16, 224, 65536), (4, 16, 24))
    batch, chunk = job.batch(256, 8), job.pick(64, 3)
    with job.device:
        towers = nn.ModuleList(
            (
                Vit(layers, width, heads, patch, side // patch, outputs),
                TextTower(layers, width, heads, vocabulary, length, outputs),
            )
        )
        scale = nn.Parameter(torch.tensor(2.5))
    queues = [F.normalize(job.randn(remembered, outputs), dim=1) for _ in towers]
    optimizer = torch.optim.AdamW([*towers.parameters(), scale], lr=3e-4)
    job.keep(towers, scale)

    def loss_of(vectors):
        """Each vector must find its partner among the other side's batch and queue."""
        images, texts = (F.normalize(v, dim=1) for v in vectors)
        target = torch.arange(batch, device=job.device)
        among = [torch.cat((own, queue)) for own, queue in zip((images, texts), queues)]
        with job.autocast():
            to_text, to_image = scale.exp() * images @ among[1].t(), scale.exp() * texts @ among[0].t()
            return (F.cross_entropy(to_text, target) + F.cross_entropy(to_image, target)) / 2, among

    def step(_):
        inputs = (job.randn(batch, 3, side, side), job.tokens(batch, length, vocabulary))
        with torch.no_grad(), job.autocast():
            vectors = [torch.cat([tower(x) for x in many.split(chunk)]) for tower, many in zip(towers, inputs)]
        vectors = [v.float().requires_grad_() for v in vectors]
        loss, among = loss_of(vectors)
        loss.backward()
        for side_, (tower, many) in enumerate(zip(towers, inputs)):
            queues[side_] = among[side_][:remembered].detach().clone()
            for x, gradient in zip(many.split(chunk), vectors[side_].grad.split(chunk)):
                with job.autocast():
                    again = tower(x)
                again.backward(gradient.to(again.dtype))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("contrastive", build))
