# flashdojo: exercise=s1-attention check=s1-attention.empty-rows misconception=empty-row-average
# idea: Hidden scores get -1e9 added and nothing else, so a row that sees no key becomes an average of all values, not 0.
import math

import torch


def causal_bias(rows, cols, like):
    i = torch.arange(rows, device=like.device).view(rows, 1)
    j = torch.arange(cols, device=like.device).view(1, cols)
    bias = torch.zeros(rows, cols, dtype=like.dtype, device=like.device)
    bias[j > i + (cols - rows)] = -1e9
    return bias


def one_head(q, k, v, scale, causal):
    s = torch.matmul(q, k.T) * scale
    if causal:
        s = s + causal_bias(q.shape[0], k.shape[0], s)
    s = s - s.max(dim=1, keepdim=True).values
    p = s.exp()
    p = p / p.sum(dim=1, keepdim=True)
    return torch.matmul(p, v)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    if scale is None:
        scale = 1.0 / math.sqrt(q.size(-1))
    t = q.dtype if q.dtype == torch.float64 else torch.float32
    per_kv = q.size(1) // k.size(1)
    batches = []
    for b in range(q.size(0)):
        heads = []
        for h in range(q.size(1)):
            g = h // per_kv
            heads.append(one_head(q[b, h].to(t), k[b, g].to(t), v[b, g].to(t), scale, causal))
        batches.append(torch.stack(heads))
    return torch.stack(batches).to(q.dtype)
