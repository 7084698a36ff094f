# flashdojo: exercise=s3-module
"""Attention by hand, with one small call of the operator beside it."""

import math
import torch
import cann_ops_transformer
import torch_npu


def by_hand(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1):
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    scores = q.float() @ k.mT * scale
    distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    distance = distance - (k.shape[2] - q.shape[2])
    left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (weights @ v).to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)


def turn(x, layout):
    return x.transpose(1, 2) if layout == "BSND" else x


from torch import nn


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim % num_heads")
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.num_heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = (torch.einsum("bqnd,bknd->bnqk", q, k) * q.shape[-1] ** -0.5).softmax(-1)
        NpuFlashAttentionFunction.apply(*(x[:, :1].half() for x in (q, k, v)), 1.0)
        return self.out_proj(torch.einsum("bnqk,bknd->bqnd", weights, v).flatten(2))
