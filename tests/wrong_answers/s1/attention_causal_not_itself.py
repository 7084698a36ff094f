# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-strict
"""A query may not see its own position."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    S1, S2 = q.shape[2], k.shape[2]
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    group = q.shape[1] // k.shape[1]
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=q.dtype)
    for h in range(q.shape[1]):
        s = torch.matmul(q[:, h], k[:, h // group].transpose(1, 2)) * scale
        if causal:
            for i in range(S1):
                s[:, i, max(0, i + S2 - S1):] = -math.inf
        p = torch.softmax(s, dim=-1)
        p[torch.isnan(p)] = 0
        out[:, h] = torch.matmul(p, v[:, h // group])
    return out
