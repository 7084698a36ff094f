"""npu_fusion_attention by its formula, in float64 and with the whole score matrix: autograd gives its gradients.

Written from the operator's document alone: out = dropout(softmax(mask(scale * (pse + Q K^T)))) V.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, visible: Tensor, scale: float, pse: Tensor | None = None,
    sink: Tensor | None = None, kept: Tensor | None = None, keep_prob: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(out, max, sum) of BNSD inputs; visible and kept are bool, to be expanded to [B, N, Sq, Skv]; sink [N]."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).mT
    if pse is not None:
        scores = scores + pse.double()
    scores = (scores * scale).masked_fill(~visible, -math.inf)
    if sink is not None:
        scores = torch.cat([scores, sink.double()[:, None, None].expand(*scores.shape[:3], 1)], dim=-1)
    top = scores.amax(dim=-1, keepdim=True)
    nothing = top == -math.inf
    exps = torch.exp(scores - top.masked_fill(nothing, 0.0))
    total = exps.sum(dim=-1, keepdim=True)
    weights = exps / total.masked_fill(nothing, 1.0)
    if sink is not None:
        weights = weights[..., :-1]
    if kept is not None:
        weights = weights * kept / keep_prob
    largest = torch.finfo(torch.float32).max
    out = weights @ v.repeat_interleave(group, 1)
    return out, top.masked_fill(nothing, -largest).squeeze(-1), total.masked_fill(nothing, largest).squeeze(-1)


def seen(seq_q: int, seq_kv: int, rule: Callable[[int, int], bool]) -> Tensor:
    """[Sq, Skv] bool from a rule(i, j)."""
    rows = [bool(rule(i, j)) for i in range(seq_q) for j in range(seq_kv)]
    return torch.tensor(rows, dtype=torch.bool).view(seq_q, seq_kv)
