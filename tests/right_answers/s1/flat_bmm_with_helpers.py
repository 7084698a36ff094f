"""[B * N, S, D] everywhere, baddbmm with an additive bias, helpers shared by function and module."""
from __future__ import annotations

import functools
import math
import operator

import torch

NEG_INF = -math.inf


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    w = _wide(x)
    shifted = torch.sub(w, torch.amax(w, dim=dim, keepdim=True))
    weights = torch.exp2(shifted * math.log2(math.e))
    return torch.div(weights, torch.sum(weights, dim=dim, keepdim=True)).type_as(x)


def _bias(rows: int, cols: int, causal: bool, like: torch.Tensor) -> torch.Tensor:
    bias = torch.zeros(rows, cols, dtype=like.dtype, device=like.device)
    if causal:
        bias.masked_fill_(torch.ones_like(bias, dtype=torch.bool).triu_(cols - rows + 1), NEG_INF)
    return bias


def _attend(q3: torch.Tensor, k3: torch.Tensor, v3: torch.Tensor, scale: float, causal: bool) -> torch.Tensor:
    """[M, S1, D], [M, S2, D], [M, S2, Dv] -> [M, S1, Dv]"""
    bias = _bias(q3.shape[1], k3.shape[1], causal, q3)
    scores = torch.baddbmm(bias, q3, k3.mT, alpha=scale)
    top = scores.amax(-1, keepdim=True)
    e = (scores - top.clamp(min=torch.finfo(top.dtype).min)).exp()
    norm = e.sum(-1, keepdim=True)
    blind = norm == 0
    return torch.bmm(e, v3) / (norm + blind)


def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    wide_q = _wide(q).flatten(0, 1)
    share = lambda t: t.to(wide_q.dtype)[:, :, None].expand(-1, -1, group, -1, -1).flatten(0, 2)
    out = _attend(wide_q, share(k), share(v), scale, causal)
    return out.unflatten(0, q.shape[:2]).to(q.dtype)


class StandardAttention(torch.nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int) -> None:
        head_dim, remainder = divmod(hidden_dim, num_heads)
        if remainder != 0:
            raise ValueError("hidden_dim is not a multiple of num_heads")
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = head_dim
        for name in "qkv":
            self.add_module(f"{name}_proj", torch.nn.Linear(hidden_dim, hidden_dim))
        self.out_proj = torch.nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def heads(y):
            return y.reshape(batch, length, self.num_heads, self.head_dim).permute(0, 2, 1, 3)

        y = scaled_dot_product_attention(heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x)))
        return self.out_proj(y.permute(0, 2, 1, 3).contiguous().view(batch, length, width))


def attention_cost(
    batch: int, num_heads: int, seq_q: int, seq_kv: int, head_dim: int, bytes_per_element: int
) -> dict[str, int]:
    size = lambda *dims: functools.reduce(operator.mul, dims, batch * num_heads)
    table = [  # tensor, elements, crossings
        ("Q", size(seq_q, head_dim), 1),
        ("K", size(seq_kv, head_dim), 1),
        ("V", size(seq_kv, head_dim), 1),
        ("S", size(seq_q, seq_kv), 2),
        ("P", size(seq_q, seq_kv), 2),
        ("O", size(seq_q, head_dim), 1),
    ]
    return {
        "flops": 2 * 2 * size(seq_q, seq_kv, head_dim),
        "hbm_bytes": sum(elements * crossings for _, elements, crossings in table) * bytes_per_element,
        "score_bytes": table[3][1] * bytes_per_element,
    }
