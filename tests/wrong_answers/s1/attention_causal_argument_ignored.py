# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-ignored
"""The mask was left for later."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    n = q.shape[1] // k.shape[1]
    # TODO causal
    w = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k.repeat_interleave(n, 1)) * scale, -1)
    return torch.einsum("bhqk,bhkd->bhqd", w, v.repeat_interleave(n, 1))
