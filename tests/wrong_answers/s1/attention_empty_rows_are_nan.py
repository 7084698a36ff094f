# flashdojo: exercise=s1-attention check=s1-attention.empty-rows misconception=empty-row-nan
"""A row that sees no key is softmax of all -inf: NaN."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = scale if scale is not None else q.shape[-1] ** -0.5
    n = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(n, 1).transpose(-2, -1) * scale
    if causal:
        L, S = q.shape[-2], k.shape[-2]
        bias = torch.zeros(L, S, dtype=q.dtype)
        bias.masked_fill_(torch.ones(L, S, dtype=torch.bool).tril(diagonal=S - L).logical_not(), float("-inf"))
        scores = scores + bias
    return torch.softmax(scores, dim=-1) @ v.repeat_interleave(n, 1)
