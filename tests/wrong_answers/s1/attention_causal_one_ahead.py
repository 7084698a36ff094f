# flashdojo: exercise=s1-attention check=s1-attention.causal misconception=causal-one-ahead
"""triu(diagonal = S2 - S1 + 2): every query sees one key of the future."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    g = q.size(1) // k.size(1)
    kk, vv = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    w = q @ kk.transpose(-2, -1)
    w = w * (q.size(-1) ** -0.5 if scale is None else scale)
    if causal:
        m = torch.triu(torch.full((q.size(2), k.size(2)), float("-inf")), diagonal=k.size(2) - q.size(2) + 2)
        w = w + m
    return w.softmax(-1).nan_to_num(0) @ vv
