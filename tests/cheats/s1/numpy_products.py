# flashdojo: exercise=s1-attention
"""Leaves torch for numpy."""
import numpy as np
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    g = q.shape[1] // k.shape[1]
    Q, K, V = q.double().numpy(), np.repeat(k.double().numpy(), g, 1), np.repeat(v.double().numpy(), g, 1)
    s = Q @ K.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool), s, -np.inf)
    m = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(m), 0, m))
    z = p.sum(-1, keepdims=True)
    return torch.from_numpy(p / np.where(z == 0, 1, z) @ V).to(q.dtype)
