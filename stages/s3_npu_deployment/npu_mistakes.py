"""What comes of misusing the operators, for the mistakes that they accept without a word."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, EMPTY_ROWS, HEADS
from grader.checking.cases import Attention
from grader.checking.diagnose import Suspect
from grader.checking.gradients import gradients
from grader.checking.wrong_attention import Scene, simulate, suspect, suspects

from .npu_cases import NpuCase, to_layout

UNBOUNDED = 1 << 30


def laid_out(plain: list[Suspect]) -> list[Suspect]:
    """Suspects whose tensors [B, N, S, D] are put into the case's layout."""

    def values(inner: Suspect) -> Callable[[NpuCase], dict[str, Tensor]]:
        def of(case: NpuCase) -> dict[str, Tensor]:
            found = inner.values(case)
            return {name: to_layout(x, case.layout) if x.dim() == 4 else x for name, x in found.items()}

        return of

    return [Suspect(s.id, values(s), s.also, s.loose) for s in plain]


def band(rule: Callable[[Attention, int, int], tuple[int, int, int]]) -> Callable[[Attention], Tensor]:
    """Visible where -left <= j - i - offset <= right, with (left, right, offset) = ``rule(case, left, right)``."""

    def visible(case: Attention) -> Tensor:
        if case.mask_mode != 4:
            return case.visible
        s1, s2 = case.q.shape[2], case.k.shape[2]
        sides = (UNBOUNDED if side == -1 else side for side in (case.win_left, case.win_right))
        left, right, offset = rule(case, *sides)
        distance = torch.arange(s2)[None, :] - torch.arange(s1)[:, None] - offset
        return (distance >= -left) & (distance <= right)

    return visible


def _offset(case: Attention) -> int:
    return case.k.shape[2] - case.q.shape[2]


def _closed(side: int) -> int:
    return 0 if side == UNBOUNDED else side


def _literal(side: int) -> int:
    return -1 if side == UNBOUNDED else side


SCALE = [
    suspect("scale-default-forward", scale=lambda c: 1.0, loose=4),
    suspect("scale-ignored", scale=lambda c: 1 / math.sqrt(c.q.shape[-1])),
    suspect("scale-twice", scale=lambda c: c.factor / math.sqrt(c.q.shape[-1])),
    suspect("scale-twice", scale=lambda c: c.factor**2),
]

WINDOW = [
    suspect("window-ignored", visible=band(lambda c, left, right: (UNBOUNDED, UNBOUNDED, 0))),
    suspect("window-is-causal", visible=band(lambda c, left, right: (UNBOUNDED, 0, _offset(c)))),
    suspect("window-swapped", visible=band(lambda c, left, right: (right, left, _offset(c)))),
    suspect("window-one-side", visible=band(lambda c, left, right: (left, UNBOUNDED, _offset(c)))),
    suspect("window-one-side", visible=band(lambda c, left, right: (UNBOUNDED, right, _offset(c)))),
    suspect("window-causal-too", visible=band(lambda c, left, right: (left, min(right, 0), _offset(c)))),
    suspect("window-minus-one", visible=band(lambda c, left, right: (_closed(left), _closed(right), _offset(c)))),
    suspect("window-minus-one", visible=band(lambda c, left, right: (_literal(left), _literal(right), _offset(c)))),
    suspect("window-top-left", visible=band(lambda c, left, right: (left, right, 0))),
    suspect("window-top-left", visible=band(lambda c, left, right: (left, 0, 0))),
]


def _heads_as_positions(case: NpuCase) -> dict[str, Tensor]:
    """BSND read as BNSD, or the other way round: attention among the heads of one position."""
    turned = NpuCase(*(x.transpose(1, 2) for x in (case.q, case.k, case.v)), scale=case.factor)
    return {"attn_out": simulate(turned, {})["attn_out"].transpose(1, 2)}


def _viewed(case: NpuCase) -> dict[str, Tensor]:
    """view or reshape where a transpose was meant, on the way in and on the way back."""
    shapes = [to_layout(x, "BSND").shape if case.layout == "BNSD" else x.shape for x in (case.q, case.k, case.v)]
    parts = (case.laid_out(x).reshape(shape) for x, shape in zip((case.q, case.k, case.v), shapes, strict=True))
    q, k, v = (to_layout(x, "BSND") if case.layout == "BNSD" else x for x in parts)
    out = simulate(NpuCase(q, k, v, scale=case.factor, mask_mode=case.mask_mode), {})["attn_out"]
    back = to_layout(out, "BSND") if case.layout == "BNSD" else out
    return {"attn_out": to_layout(back.reshape(to_layout(case.q, case.layout).shape), case.layout)}


@cache
def forward_suspects() -> list[Suspect]:
    tables = suspects([*SCALE, *HEADS, *CAUSAL, *WINDOW, *EMPTY_ROWS])
    return laid_out([*tables, Suspect("layout-mislabelled", _heads_as_positions), Suspect("layout-viewed", _viewed)])


# softmax_lse from softmax_max and softmax_sum (910B) -----------------------------------------------------------------


def _sums(masked: Tensor) -> Tensor:
    return (masked - masked.amax(-1, keepdim=True)).exp().sum(-1)


def _kept(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    """-FLT_MAX + log(FLT_MAX), as the formula gives in rows that see no key."""
    return out, lse.masked_fill(~scene.rows[:, 0], torch.finfo(torch.float32).min)


def _minus_infinity(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    return out, lse.masked_fill(~scene.rows[:, 0], -math.inf)


def _zero(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    return out, lse.masked_fill(~scene.rows[:, 0], 0.0)


LSE = [
    suspect("lse-without-sum", lse=lambda m, s: m.amax(-1)),
    suspect("lse-without-log", lse=lambda m, s: m.amax(-1) + _sums(m)),
    suspect("lse-without-log", lse=lambda m, s: _sums(m)),
    suspect("lse-without-max", lse=lambda m, s: _sums(m).log()),
    suspect("lse-sign", lse=lambda m, s: m.amax(-1) - _sums(m).log()),
    suspect("lse-product", lse=lambda m, s: m.amax(-1) * _sums(m)),
    suspect("lse-product", lse=lambda m, s: m.amax(-1) * _sums(m).log()),
    suspect("lse-log1p", lse=lambda m, s: m.amax(-1) + _sums(m).log1p()),
    suspect("lse-base-2", lse=lambda m, s: m.amax(-1) + _sums(m).log2()),
    suspect("lse-all-eight", lse=lambda m, s: m.amax(-1) + (8 * _sums(m)).log()),
    suspect("lse-scaled-twice", lse=lambda m, s: m.amax(-1) * s.case.factor + _sums(m).log()),
]
EMPTY_LSE = [
    suspect("lse-of-empty-rows", empty=_kept),
    suspect("lse-of-empty-rows", empty=_minus_infinity),
    suspect("lse-of-empty-rows", empty=_zero),
]


@cache
def lse_suspects() -> list[Suspect]:
    return suspects(LSE)


@cache
def empty_lse_suspects() -> list[Suspect]:
    return suspects([*EMPTY_LSE, *LSE])


# gradients -----------------------------------------------------------------------------------------------------------


def _default_scale(case: Attention) -> float:
    return 1 / math.sqrt(case.q.shape[-1])


def _grads(id: str, loose: float = 1.0, **changes: Callable) -> Suspect:
    return Suspect(id, lambda case: gradients(case, changes), loose=loose)


def _everything(case: Attention) -> Tensor:
    return torch.ones_like(case.visible)


@cache
def gradient_suspects() -> list[Suspect]:
    """Wrong backward passes behind a right forward pass."""

    def scaled(id: str, scale: Callable[[Attention], float], loose: float = 1.0) -> Suspect:
        return _grads(id, loose, scale=scale, scale_q=scale, scale_k=scale)

    return laid_out(
        [
            scaled("scale-default-backward", _default_scale, loose=9),
            _grads("backward-mask-lost", visible=_everything, loose=4),
            _grads("gradients-scaled-again", scale_q=lambda c: c.factor**2, scale_k=lambda c: c.factor**2),
            _grads("gradient-order", order=lambda q, k, v: (q, v, k)),
            _grads("gradient-order", order=lambda q, k, v: (k, q, v)),
            _grads("gradient-order", order=lambda q, k, v: (v, k, q)),
        ]
    )
