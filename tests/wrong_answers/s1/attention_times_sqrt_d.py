# flashdojo: exercise=s1-attention check=s1-attention.values misconception=scale-multiplied
"""Multiplies by sqrt(D)."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    d_k = q.size(-1)
    if scale is None:
        scale = d_k ** 0.5
    rep = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
    energy = torch.einsum("bhqd,bhkd->bhqk", [q, k]) * scale
    if causal:
        L, S = energy.shape[-2], energy.shape[-1]
        future = torch.ones(L, S, dtype=torch.bool).triu(S - L + 1)
        energy = energy.masked_fill(future, float("-inf"))
    attention = torch.softmax(energy, dim=3).nan_to_num(0)
    return torch.einsum("bhqk,bhkd->bhqd", [attention, v])
