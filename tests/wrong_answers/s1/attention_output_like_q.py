# flashdojo: exercise=s1-attention check=s1-attention.rectangular misconception=shapes-assumed-equal
"""The output buffer has the shape of q, so Dv has to be D."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    S2, group = k.shape[2], N1 // k.shape[1]
    scale = D ** -0.5 if scale is None else scale
    out = torch.zeros_like(q)
    for h in range(N1):
        scores = q[:, h] @ k[:, h // group].transpose(-2, -1) * scale
        if causal:
            visible = torch.ones(S1, S2, dtype=torch.bool).tril(S2 - S1)
            scores = scores.masked_fill(~visible, float("-inf"))
        out[:, h] = torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v[:, h // group]
    return out
