# flashdojo: exercise=s1-attention check=s1-attention.values misconception=scale-wrong-size
"""Takes the model width N1 * D for the head dimension."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    d_model = N1 * D
    if scale is None:
        scale = 1 / math.sqrt(d_model)
    out = []
    for h in range(N1):
        kv = h // (N1 // k.shape[1])
        s = q[:, h] @ k[:, kv].transpose(1, 2) * scale
        if causal:
            s = s + torch.full(s.shape[-2:], -math.inf).triu(k.shape[2] - S1 + 1)
        w = torch.softmax(s, -1)
        w = torch.where(torch.isnan(w), torch.zeros_like(w), w)
        out.append(w @ v[:, kv])
    return torch.stack(out, 1)
