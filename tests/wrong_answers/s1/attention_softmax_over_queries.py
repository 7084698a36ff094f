# flashdojo: exercise=s1-attention check=s1-attention.values misconception=softmax-over-queries
"""Normalises over the query axis."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    g = q.shape[1] // k.shape[1]
    k = torch.repeat_interleave(k, g, dim=1)
    v = torch.repeat_interleave(v, g, dim=1)
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        s1, s2 = q.shape[2], k.shape[2]
        scores.masked_fill_(torch.triu(torch.ones(s1, s2), s2 - s1 + 1).bool(), -math.inf)
    weights = torch.softmax(scores, dim=2).nan_to_num(0.0)
    return weights @ v
