# flashdojo: exercise=s1-attention check=s1-attention.scale misconception=scale-ignored
"""Always 1/sqrt(D), whatever the caller says."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    scores = torch.matmul(q.reshape(B, N2, -1, D), k.transpose(-1, -2)) / math.sqrt(D)
    scores = scores.reshape(B, N2, N1 // N2, S1, S2)
    if causal:
        scores = scores.masked_fill(torch.ones(S1, S2).triu(1 + S2 - S1) > 0, -math.inf)
    w = torch.softmax(scores, -1).nan_to_num(0.0)
    return torch.matmul(w.reshape(B, N2, -1, S2), v).reshape(B, N1, S1, Dv)
