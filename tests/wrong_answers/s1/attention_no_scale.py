# flashdojo: exercise=s1-attention check=s1-attention.values misconception=scale-missing
"""QK^T goes into softmax as it is."""
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    scores = torch.matmul(q, k.transpose(-2, -1))
    if scale is not None:
        scores = scores * scale
    if causal:
        S1, S2 = scores.shape[-2:]
        mask = torch.tril(torch.ones(S1, S2), diagonal=S2 - S1)
        scores = scores.masked_fill(mask == 0, float("-inf"))
    attn = torch.softmax(scores, dim=-1)
    attn = torch.nan_to_num(attn, 0.0)
    return torch.matmul(attn, v)
