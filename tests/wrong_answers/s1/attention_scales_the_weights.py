# flashdojo: exercise=s1-attention check=s1-attention.values misconception=scale-after-softmax
"""Softmax first, 1/sqrt(D) afterwards."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    heads = q.shape[1]
    idx = [h * k.shape[1] // heads for h in range(heads)]
    k, v = k[:, idx], v[:, idx]
    scores = q @ k.mT
    if causal:
        visible = torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = torch.where(visible, scores, -math.inf)
    weights = torch.softmax(scores, -1) * factor
    return weights.nan_to_num() @ v
