# flashdojo: exercise=s1-attention check=s1-attention.gqa misconception=gqa-interleaved
"""repeat instead of repeat_interleave: query head h reads kv head h % N2."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    times = q.shape[1] // k.shape[1]
    k = k.repeat(1, times, 1, 1)
    v = v.repeat(1, times, 1, 1)
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if causal:
        S1, S2 = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(S1, S2).triu(S2 - S1 + 1).bool(), -math.inf)
    p = torch.softmax(scores, -1)
    return torch.matmul(torch.nan_to_num(p), v)
