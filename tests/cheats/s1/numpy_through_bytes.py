# flashdojo: exercise=s1-attention
"""Leaves torch through the bytes of the storage."""
import numpy as np
import torch


def array(t):
    flat = t.double().contiguous()
    return np.frombuffer(bytes(flat.untyped_storage().tolist()), dtype=np.float64).reshape(t.shape)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    g = q.shape[1] // k.shape[1]
    Q, K, V = array(q), array(k.repeat_interleave(g, 1)), array(v.repeat_interleave(g, 1))
    s = Q @ K.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s[..., ~np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool)] = -np.inf
    m = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(m), 0, m))
    z = p.sum(-1, keepdims=True)
    return torch.tensor(p / np.where(z == 0, 1, z) @ V).to(q.dtype)
