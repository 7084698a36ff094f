# flashdojo: exercise=s1-attention check=s1-attention.causal-offset misconception=causal-top-left
"""tril(ones(S1, S2)): right for a square, wrong when there are more keys than queries."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = scale if scale is not None else 1.0 / math.sqrt(q.shape[-1])
    repeats = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(repeats, dim=1)
    v = v.repeat_interleave(repeats, dim=1)
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        causal_mask = torch.tril(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool))
        scores = scores.masked_fill(~causal_mask, float("-inf"))
    return torch.nan_to_num(scores.softmax(dim=-1)) @ v
