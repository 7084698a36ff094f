"""Softmax over keys that arrive in tiles: what one row has to remember, and how two halves of it are joined.

A state is (row_max [..., Q, 1], row_sum [..., Q, 1], acc [..., Q, Dv]) with row_sum = sum of exp(score - row_max) and
acc = sum of exp(score - row_max) * value over the keys seen so far. Nothing else of the past is needed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

State = tuple[Tensor, Tensor, Tensor]


def start(rows: tuple[int, ...], dim_v: int, *, dtype: torch.dtype = torch.float32) -> State:
    """The state before any key, for rows [..., Q]: (-inf, 0, 0). It is the neutral element of merge_states."""
    return (
        torch.full((*rows, 1), -math.inf, dtype=dtype),
        torch.zeros(*rows, 1, dtype=dtype),
        torch.zeros(*rows, dim_v, dtype=dtype),
    )


def online_softmax_update(state: State, scores: Tensor, values: Tensor) -> State:
    """Take in scores [..., Q, K] (scaled, hidden = -inf) and values [..., K, Dv]."""
    row_max = scores.amax(dim=-1, keepdim=True)
    exps = torch.exp(scores - _finite(row_max))
    return merge_states(state, (row_max, exps.sum(dim=-1, keepdim=True), exps @ values.to(exps.dtype)))


def merge_states(a: State, b: State) -> State:
    """The state of both sets of keys together: associative, commutative, and equal to having seen them in one go."""
    row_max = torch.maximum(a[0], b[0])
    grow_a, grow_b = (torch.exp(state[0] - _finite(row_max)) for state in (a, b))
    return row_max, a[1] * grow_a + b[1] * grow_b, a[2] * grow_a + b[2] * grow_b


def finish(state: State) -> tuple[Tensor, Tensor]:
    """(output [..., Q, Dv], log-sum-exp [..., Q]). A row that saw no key gives 0 and +inf."""
    row_max, row_sum, acc = state
    empty = row_sum == 0
    output = acc / row_sum.masked_fill(empty, 1.0)
    return output, (row_max + row_sum.log()).masked_fill(empty, math.inf).squeeze(-1)


def _finite(row_max: Tensor) -> Tensor:
    """-inf - (-inf) is nan; measured from 0 instead, a row that has seen nothing gives exp(-inf) = 0."""
    return row_max.masked_fill(row_max == -math.inf, 0.0)
