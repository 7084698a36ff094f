# flashdojo: exercise=s1-attention check=s1-attention.empty-rows misconception=empty-row-average
"""-1e9 for -inf: a row that sees nothing becomes the mean of all values."""
import math
import torch


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    n = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(n, dim=1)
    v = v.repeat_interleave(n, dim=1)
    scores = torch.matmul(q.float(), k.float().transpose(-1, -2)) * scale
    if causal:
        mask = torch.arange(k.shape[2])[None, :] > torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(mask, -1e9)
    return torch.matmul(torch.softmax(scores, dim=-1), v.float()).to(q.dtype)
