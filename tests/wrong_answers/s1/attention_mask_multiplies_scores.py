# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-fill
"""Masks by multiplying the scores with 0; exp(0) is still a weight."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(g, dim=1)
    v = v.repeat_interleave(g, dim=1)
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if causal:
        mask = torch.tril(torch.ones(q.shape[2], k.shape[2], dtype=scores.dtype), diagonal=k.shape[2] - q.shape[2])
        scores = scores * mask
    return torch.matmul(torch.softmax(scores, dim=-1), v)
