# flashdojo: exercise=s1-attention check=s1-attention.gqa misconception=gqa-one-head
"""Every query head reads kv head 0 (multi-query attention)."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if k.shape[1] != q.shape[1]:
        k, v = k[:, :1], v[:, :1]          # broadcasts over the heads
    s = q @ k.transpose(-2, -1) * scale
    if causal:
        s1, s2 = s.shape[-2:]
        s = s.masked_fill(torch.arange(s2) > torch.arange(s1).unsqueeze(1) + (s2 - s1), -math.inf)
    return s.softmax(-1).nan_to_num(0.0) @ v
