"""Attention as it is written on the blackboard. Its S1 x S2 matrices are what the rest of the course gets rid of."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along dim, measured from the maximum so that nothing overflows."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    exps = torch.exp(wide - wide.amax(dim, keepdim=True))
    return (exps / exps.sum(dim, keepdim=True)).to(x.dtype)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q [B, N1, S1, D], k [B, N2, S2, D], v [B, N2, S2, Dv] -> [B, N1, S1, Dv]; causal is aligned bottom-right.

    Query head h reads key/value head h // (N1 // N2). A row that sees no key gives 0.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    heads_q, seq_q, heads_kv, seq_kv = q.shape[1], q.shape[2], k.shape[1], k.shape[2]
    queries = q.to(wide).unflatten(1, (heads_kv, heads_q // heads_kv))  # [B, N2, group, S1, D]
    scores = torch.einsum("bngqd,bnkd->bngqk", queries * scale, k.to(wide))
    if causal:
        hidden = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).triu(seq_kv - seq_q + 1)
        p = softmax(scores.masked_fill(hidden, -math.inf)).masked_fill(hidden, 0.0)  # 0 also where a row was all -inf
    else:
        p = softmax(scores)
    return torch.einsum("bngqk,bnkd->bngqd", p, v.to(wide)).flatten(1, 2).to(q.dtype)


class StandardAttention(nn.Module):
    """Multi-head self-attention [B, N, D] -> [B, N, D]. Raises ValueError unless num_heads divides hidden_dim."""

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
