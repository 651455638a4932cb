"""A Triton kernel in a file of its own: Triton reads a kernel's source from its file, and not every machine has it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(a, b, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def add(a, b):
    out = torch.empty_like(a)
    _add[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
    return out
