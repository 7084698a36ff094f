# flashdojo: exercise=s1-attention check=s1-attention.inputs misconception=input-modified
"""q *= scale saves a temporary and changes the caller's tensor."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    q *= 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    scores = (q @ k.transpose(-1, -2)).float()
    if causal:
        hide = torch.ones(q.shape[2], k.shape[2]).triu(k.shape[2] - q.shape[2] + 1).bool()
        scores.masked_fill_(hide, -math.inf)
    return (torch.softmax(scores, -1).nan_to_num(0) @ v.float()).to(q.dtype)
