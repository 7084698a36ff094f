"""Attention with any of its steps replaced: what a wrong idea about attention computes.

``simulate(case, changes)`` follows the textbook except for the steps named in ``changes``. With a ``step`` (or
``tiles``) it goes through the keys tile by tile as FlashAttention does, otherwise over the whole matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.checking.cases import Attention
from grader.checking.compare import accumulate_dtype
from grader.checking.diagnose import Suspect

Changes = Mapping[str, Callable[..., Any]]
State = tuple[Tensor, Tensor, Tensor]


@dataclass
class Scene:
    """What the steps may look at: the case, inputs in the dtype of the sums, per query head."""

    case: Attention
    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor  # scaled, not yet masked
    visible: Tensor  # [S1, S2] bool as the program believes it
    rows: Tensor  # [S1, 1] bool: rows with a visible key


def simulate(case: Attention, changes: Changes) -> dict[str, Tensor]:
    """attn_out [B, N1, S1, Dv] and softmax_lse [B, N1, S1] of attention with ``changes``.

    Steps: ``heads(x, n)``, ``inputs(q, k, v, case)``, ``scale(case)``, ``scores(q, k, scale)``, ``visible(case)``,
    ``fill(scores, visible)``, ``skip_tiles`` (hidden tiles are left out); over the whole matrix
    ``weights(masked, scene)``, ``reweigh(weights, scene)``, ``values(weights, scene)``, ``lse(masked, scene)``; by
    tiles ``start(scene)``, ``tiles(scene)``, ``step(state, scores, v)``, ``finish(state, scene)``; at the end
    ``empty(out, lse, scene)``.
    """
    dtype = accumulate_dtype(case.q.dtype)
    q, k, v = case.q.to(dtype), case.k.to(dtype), case.v.to(dtype)
    heads = changes.get("heads", consecutive)
    k, v = heads(k, q.shape[1]), heads(v, q.shape[1])
    q, k, v = changes.get("inputs", lambda q, k, v, c: (q, k, v))(q, k, v, case)
    scale = changes.get("scale", lambda c: c.factor)(case)
    scores = changes.get("scores", lambda q, k, s: (q @ k.mT) * s)(q, k, scale)
    visible = changes.get("visible", lambda c: c.visible)(case)
    scene = Scene(case, q, k, v, scores, visible, visible.any(-1, keepdim=True))
    masked = changes.get("fill", minus_infinity)(scores, visible)
    if "skip_tiles" in changes:  # tiles that the mask hides are not computed, whatever ``fill`` does to the others
        masked = masked.masked_fill(~any_in_tile(visible, case), -math.inf)
    if "step" in changes or "tiles" in changes:
        out, lse = _by_tiles(masked, scene, changes)
    else:
        weights = changes.get("weights", softmax)(masked, scene)
        weights = changes.get("reweigh", lambda w, scene: w)(weights, scene)
        out = changes.get("values", lambda w, scene: w @ scene.v)(weights, scene)
        lse = changes.get("lse", lambda masked, scene: masked.logsumexp(-1))(masked, scene)
    out, lse = changes.get("empty", zero_and_infinity)(out, lse, scene)
    return {"attn_out": out, "softmax_lse": lse}


def suspect(id: str, loose: float = 1.0, **changes: Callable[..., Any]) -> tuple[str, Changes, float]:
    """One row of a table of wrong ideas."""
    return id, changes, loose


def suspects(rows: list[tuple[str, Changes, float]]) -> list[Suspect]:
    return [Suspect(id, _values(changes), loose=loose) for id, changes, loose in rows]


def pairs(rows: list[tuple[str, Changes, float]]) -> list[Suspect]:
    """Every two rows whose steps do not clash, both wrong at once."""
    found = []
    for i, (a, first, loose) in enumerate(rows):
        for b, second, other in rows[i + 1 :]:
            if a != b and not set(first) & set(second):
                found.append(Suspect(a, _values({**first, **second}), also=b, loose=loose * other))
    return found


def _values(changes: Changes) -> Callable[[Attention], dict[str, Tensor]]:
    return lambda case: simulate(case, changes)


# the right steps -------------------------------------------------------------------------------------------------


def consecutive(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1) if heads != x.shape[1] else x


def minus_infinity(scores: Tensor, visible: Tensor) -> Tensor:
    return scores.masked_fill(~visible, -math.inf)


def softmax(masked: Tensor, scene: Scene) -> Tensor:
    return masked.softmax(-1)


def zero_and_infinity(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    """Rows without a visible key: 0 and +inf."""
    if scene.rows.all():
        return out, lse
    return out.masked_fill(~scene.rows, 0.0), lse.masked_fill(~scene.rows[:, 0], math.inf)


def update(state: State, scores: Tensor, v: Tensor) -> State:
    """One step of the online softmax."""
    old, total, acc = state
    new = torch.maximum(old, scores.amax(-1, keepdim=True))
    p, alpha = shifted(scores, new), shifted(old, new)
    return new, total * alpha + p.sum(-1, keepdim=True), acc * alpha + p @ v


def any_in_tile(visible: Tensor, case: Attention) -> Tensor:
    """[S1, S2]: whether the tile around a pair holds a visible pair."""
    found = torch.zeros_like(visible)
    for i in range(0, visible.shape[0], case.block_q):
        for j in range(0, visible.shape[1], case.block_kv):
            tile = slice(i, i + case.block_q), slice(j, j + case.block_kv)
            found[tile] = visible[tile].any()
    return found


def shifted(x: Tensor, reference: Tensor) -> Tensor:
    """exp(x - reference), 0 where x is -inf."""
    return (x - reference.masked_fill(reference == -math.inf, 0.0)).exp()


def divide(state: State, scene: Scene) -> tuple[Tensor, Tensor]:
    row_max, row_sum, acc = state
    return acc / row_sum, (row_max + row_sum.log())[..., 0]


def all_tiles(scene: Scene) -> list[slice]:
    length, block = scene.k.shape[2], scene.case.block_kv
    return [slice(j, min(j + block, length)) for j in range(0, length, block)]


def _by_tiles(masked: Tensor, scene: Scene, changes: Changes) -> tuple[Tensor, Tensor]:
    step, start = changes.get("step", update), changes.get("start", start_state)
    state = start(scene)
    for keys in changes.get("tiles", all_tiles)(scene):
        state = step(state, masked[..., keys], scene.v[..., keys, :])
    return changes.get("finish", divide)(state, scene)


def start_state(scene: Scene) -> State:
    rows = scene.scores[..., :1]
    return (
        torch.full_like(rows, -math.inf),
        torch.zeros_like(rows),
        torch.zeros(*rows.shape[:-1], scene.v.shape[-1], dtype=rows.dtype),
    )
