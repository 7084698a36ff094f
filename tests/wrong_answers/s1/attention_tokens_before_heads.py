# flashdojo: exercise=s1-attention check=s1-attention.values misconception=layout-transposed
"""Returns [B, S1, N1, Dv], ready for the output projection, but that is not what was asked."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(g, 1).transpose(-1, -2) * scale
    if causal:
        d = k.shape[2] - q.shape[2]
        scores = scores.masked_fill(~torch.ones(q.shape[2], k.shape[2]).tril(d).bool(), -math.inf)
    out = torch.softmax(scores, -1).nan_to_num(0) @ v.repeat_interleave(g, 1)
    return out.transpose(1, 2).contiguous()
