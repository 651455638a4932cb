"""Meta-learning: two inner steps per task that keep their own graph, so every gradient and every set of adapted weights
lives until the outer backward pass; every fourth step a Hessian-vector product by forward over reverse mode."""

import sys

import torch
from common import main
from models import Gpt, next_token_loss
from torch.func import functional_call, grad, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

TASKS, INNER_STEPS, CURVATURE_EVERY = 3, 2, 4
INNER_RATE = 1e-2


def build(job):
    layers, width, heads = job.pick((6, 768, 12), (2, 64, 4))
    vocabulary, length, batch = job.pick(16000, 97), job.pick(256, 16), job.batch(16, 2)
    with job.device:
        model = Gpt(layers, width, heads, vocabulary, length)
    names, parameters = zip(*model.named_parameters())
    curvature = [torch.zeros_like(p) for p in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4)
    job.keep(model, *curvature)

    def loss_of(weights, tokens, dtype=torch.bfloat16):
        """Weights are cast by hand: under autocast the types of a second derivative do not agree."""
        narrow = {name: weight.to(dtype) for name, weight in zip(names, weights)}
        return next_token_loss(functional_call(model, narrow, (tokens,)).float(), tokens)

    def adapted_loss(tokens):
        """The loss on half of a task's batch after INNER_STEPS of descent on the other half."""
        support, query = tokens.chunk(2)
        weights = parameters
        for _ in range(INNER_STEPS):
            gradients = torch.autograd.grad(loss_of(weights, support), weights, create_graph=True)
            weights = [w - INNER_RATE * g for w, g in zip(weights, gradients)]
        return loss_of(weights, query)

    def update_curvature(tokens):
        """Averages v * (H v) for a random sign vector v: an estimate of the Hessian's diagonal (Hutchinson)."""
        signs = [torch.where(job.randn(*p.shape) < 0, -1.0, 1.0) for p in parameters]
        detached = [p.detach() for p in parameters]
        # In single precision: a layer norm's tangents are, whatever its weights.
        _, products = jvp(grad(lambda weights: loss_of(weights, tokens, torch.float32)), (detached,), (signs,))
        torch._foreach_mul_(signs, products)
        torch._foreach_lerp_(curvature, signs, 0.1)

    def step(i):
        total = torch.zeros((), device=job.device)
        with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
            for _ in range(TASKS):
                loss = adapted_loss(job.tokens(batch, length, vocabulary)) / TASKS
                loss.backward()
                total += loss.detach()
            if i % CURVATURE_EVERY == CURVATURE_EVERY - 1:
                update_curvature(job.tokens(batch // 2, length, vocabulary))
        for parameter, diagonal in zip(parameters, curvature):
            parameter.grad /= 1 + diagonal.abs()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


if __name__ == "__main__":
    sys.exit(main("second_order", build))
