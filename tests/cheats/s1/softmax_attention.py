# flashdojo: exercise=s1-softmax
"""Attention with the identity as values."""
import torch
import torch.nn.functional as F


def softmax(x, dim=-1):
    rows = x.double().movedim(dim, -1).reshape(-1, 1, x.shape[dim])
    n = rows.shape[-1]
    eye = torch.eye(n, dtype=rows.dtype).expand(len(rows), n, n)
    out = F.scaled_dot_product_attention(rows, eye, eye, scale=1.0)
    return out.reshape(x.movedim(dim, -1).shape).movedim(-1, dim).to(x.dtype)
