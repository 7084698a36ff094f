# flashdojo: exercise=s1-attention check=s1-attention.values misconception=scale-d
"""Divides by D instead of sqrt(D)."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    N2, S2 = k.shape[1], k.shape[2]
    if scale is None:
        scale = 1.0 / D
    qg = q.view(B, N2, N1 // N2, S1, D) if q.is_contiguous() else q.reshape(B, N2, N1 // N2, S1, D)
    s = torch.einsum("bngqd,bnkd->bngqk", qg, k) * scale
    if causal:
        i = torch.arange(S1)[:, None] + S2 - S1
        j = torch.arange(S2)[None, :]
        s = s.masked_fill(j > i, -torch.inf)
    p = s.softmax(-1)
    p = p.masked_fill(p.isnan(), 0.0)
    return torch.einsum("bngqk,bnkd->bngqd", p, v).reshape(B, N1, S1, v.shape[-1])
