"""The truth: attention and its gradients by the formulas, in float64, with the whole S1 x S2 matrix in memory.

Everything else in the course is measured against this file, so it is written to be checked by eye.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def visible(seq_q: int, seq_kv: int, mask_mode: int = 0, win_left: int = -1, win_right: int = -1) -> Tensor:
    """Which key each query sees, [S1, S2] bool. Causal (3) and window (4) are aligned bottom-right; -1 is no limit."""
    query, key = torch.arange(seq_q)[:, None], torch.arange(seq_kv)[None, :]
    position = query + seq_kv - seq_q  # the key that stands on the query's diagonal
    if mask_mode == 0:
        return torch.ones(seq_q, seq_kv, dtype=torch.bool)
    if mask_mode == 3:
        return key <= position
    if mask_mode == 4:
        not_too_early = key >= position - win_left if win_left >= 0 else torch.tensor(True)
        not_too_late = key <= position + win_right if win_right >= 0 else torch.tensor(True)
        return (not_too_early & not_too_late).expand(seq_q, seq_kv)
    raise ValueError(f"mask_mode must be 0, 3 or 4, not {mask_mode}")


def forward(
    q: Tensor, k: Tensor, v: Tensor, *,
    scale: float | None = None, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """attn_out [B, N1, S1, Dv] and softmax_lse [B, N1, S1], both float64. A row without a visible key: 0 and +inf."""
    p, lse, _ = _weights(q, k, scale, mask_mode, win_left, win_right)
    return p @ _per_query_head(v, q), lse


def backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, *,
    scale: float | None = None, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dq, dk, dv) in float64 for the upstream gradient dout [B, N1, S1, Dv]."""
    p, _, scale = _weights(q, k, scale, mask_mode, win_left, win_right)
    k_each, v_each, dout = _per_query_head(k, q), _per_query_head(v, q), dout.double()
    dv = p.mT @ dout
    dp = dout @ v_each.mT
    ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))  # the Jacobian of softmax
    dq = scale * ds @ k_each
    dk = scale * ds.mT @ q.double()
    group = (k.shape[1], -1)  # every query head of a group read the same key/value head: their gradients add
    return dq, dk.unflatten(1, group).sum(dim=2), dv.unflatten(1, group).sum(dim=2)


def _weights(
    q: Tensor, k: Tensor, scale: float | None, mask_mode: int, win_left: int, win_right: int
) -> tuple[Tensor, Tensor, float]:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * q.double() @ _per_query_head(k, q).mT
    hidden = ~visible(q.shape[2], k.shape[2], mask_mode, win_left, win_right).to(q.device)
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(dim=-1)
    lse = lse.masked_fill(lse == -math.inf, math.inf)  # so that exp(score - lse) is 0 in a row that sees nothing
    return torch.exp(scores - lse[..., None]), lse, scale


def _per_query_head(x: Tensor, q: Tensor) -> Tensor:
    """Query head h reads key/value head h // (N1 // N2)."""
    return x.double().repeat_interleave(q.shape[1] // x.shape[1], dim=1)
