# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-inverted
"""Keeps the wrong triangle."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    r = q.shape[1] // k.shape[1]
    scores = torch.einsum("bhid,bhjd->bhij", q, k.repeat_interleave(r, 1)) * scale
    if causal:
        i = torch.arange(q.shape[2]).unsqueeze(1) + k.shape[2] - q.shape[2]
        j = torch.arange(k.shape[2]).unsqueeze(0)
        scores = scores.masked_fill(j < i, -math.inf)
    p = torch.softmax(scores, -1).nan_to_num(0.0)
    return torch.einsum("bhij,bhjd->bhid", p, v.repeat_interleave(r, 1))
