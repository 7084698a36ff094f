# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-after-softmax
"""Masks the weights after softmax: rows no longer sum to one."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    groups = q.shape[1] // k.shape[1]
    k, v = (torch.cat([t[:, n : n + 1].expand(-1, groups, -1, -1) for n in range(t.shape[1])], 1) for t in (k, v))
    weights = torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1)
    if causal:
        weights = weights.tril(k.shape[2] - q.shape[2])
    return weights @ v
