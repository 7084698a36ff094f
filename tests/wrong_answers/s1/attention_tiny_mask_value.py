# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-fill
"""Masks with 1e-9 where -1e9 was meant."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    n = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(n, dim=1)
    v = v.repeat_interleave(n, dim=1)
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if causal:
        mask = torch.tril(torch.ones(q.shape[2], k.shape[2]), k.shape[2] - q.shape[2])
        scores = scores.masked_fill(mask == 0, 1e-9)
    return torch.matmul(torch.softmax(scores, dim=-1), v)
