"""Token-by-token generation with models.Gpt, shared by the workloads that generate: two kinds of key-value cache."""

import torch
import torch.nn.functional as F


class GrowingCache:
    """Keys and values are concatenated anew for every token: each request is a little larger than the one before."""

    def __init__(self, layers):
        self.length, self.layers = 0, [None] * layers

    def append(self, layer, pair):
        """`pair` is [2, batch, heads, new, head width]; returns all so far, the same but for the length."""
        old = self.layers[layer]
        self.layers[layer] = pair if old is None else torch.cat((old, pair), dim=3)
        return self.layers[layer]

    def reorder(self, rows):
        """Keeps these rows of the batch, in this order, as beam search asks for."""
        self.layers = [pair.index_select(1, rows) for pair in self.layers]


class FixedCache:
    """Room for `longest` tokens is taken once, and filled."""

    def __init__(self, layers, longest):
        self.length, self.longest, self.layers = 0, longest, [None] * layers

    def append(self, layer, pair):
        if self.layers[layer] is None:
            two, batch, heads, _, width = pair.shape
            self.layers[layer] = pair.new_empty(two, batch, heads, self.longest, width)
        end = self.length + pair.shape[3]
        self.layers[layer][:, :, :, self.length : end] = pair
        return self.layers[layer][:, :, :, :end]


def next_logits(model, cache, tokens):
    """Logits [batch, vocabulary] of what follows `tokens` [batch, new], which follow what the cache holds."""
    start, count = cache.length, tokens.shape[1]
    x = model.token(tokens) + model.position.weight[start : start + count]
    for layer, block in enumerate(model.blocks):
        attention, normed = block.attention, block.norm1(x)
        shape = (*tokens.shape, 3, attention.heads, x.shape[-1] // attention.heads)
        qkv = attention.qkv(normed).view(shape).permute(2, 0, 3, 1, 4)
        keys, values = cache.append(layer, qkv[1:])
        y = F.scaled_dot_product_attention(qkv[0], keys, values, is_causal=start == 0)
        x = x + attention.out(y.transpose(1, 2).reshape(x.shape))
        x = x + block.mlp(block.norm2(x))
    cache.length = start + count
    return model.head(model.norm(x[:, -1]))


def sample(logits, generator):
    """One token a row, drawn from the softmax: the largest p / e with e exponential (multinomial without its sums)."""
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_(generator=generator)
    return (logits.float().softmax(-1) / noise).argmax(-1, keepdim=True)
