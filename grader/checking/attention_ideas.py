"""Tables of wrong ideas about attention, shared by the stages: scale, softmax, factors, heads, causal mask, empty rows.

Each row is ``suspect(misconception, step=replacement, ...)`` for :func:`grader.checking.wrong_attention.simulate`. Rows
with the same misconception are variants of one idea.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from grader.checking.cases import Attention
from grader.checking.wrong_attention import Scene, shifted, suspect


def _size(case: Attention, value: int) -> float:
    """Scale by 1/sqrt(value) where the head dimension was meant; a given scale is used as it is."""
    if value < 2:
        raise ArithmeticError("this is no scale at all, which is another idea")
    return 1 / math.sqrt(value) if case.scale is None else case.scale


def _given(right: float, case: Attention) -> float:
    """A wrong treatment of a scale that was passed in; without one nothing is wrong."""
    return case.factor if case.scale is None else right


SCALE = [
    suspect("scale-missing", scale=lambda c: 1.0, loose=4),
    suspect("scale-d", scale=lambda c: 1 / c.q.shape[-1] if c.scale is None else c.scale),
    suspect("scale-d", scale=lambda c: c.factor**2),
    suspect("scale-multiplied", scale=lambda c: 1 / c.factor, loose=9),
    suspect("scale-multiplied", scale=lambda c: 1 / c.factor if c.scale is None else c.scale, loose=9),
    suspect("scale-multiplied", scale=lambda c: 1 / c.factor**2 if c.scale is None else c.scale, loose=25),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.q.shape[1] * c.q.shape[-1])),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.q.shape[2])),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.k.shape[2])),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.q.shape[1])),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.v.shape[-1])),
    suspect("scale-wrong-size", scale=lambda c: _size(c, c.block_kv)),
    suspect("scale-ignored", scale=lambda c: 1 / math.sqrt(c.q.shape[-1])),
    suspect("scale-combined", scale=lambda c: _given(c.factor / math.sqrt(c.q.shape[-1]), c)),
    suspect("scale-inverted", scale=lambda c: _given(1 / c.factor, c), loose=9),
    suspect("scale-inverted", scale=lambda c: _given(c.factor**0.5 if c.factor > 0 else 1.0, c), loose=4),
    suspect("scale-after-softmax", scale=lambda c: 1.0, reweigh=lambda w, s: w * s.case.factor, loose=4),
    suspect("scale-after-softmax", reweigh=lambda w, s: w * s.case.factor),
]


def _over(*dims: int) -> Callable[[Tensor, Scene], Tensor]:
    def weights(masked: Tensor, scene: Scene) -> Tensor:
        total = masked.logsumexp(dims, keepdim=True)
        return (masked - total.masked_fill(total == -math.inf, 0.0)).exp()

    return weights


def _exp(masked: Tensor) -> Tensor:
    return shifted(masked, masked.amax(-1, keepdim=True))


def _base_two(masked: Tensor, scene: Scene) -> Tensor:
    """2**x where e**x was meant."""
    return (masked * math.log(2)).softmax(-1)


SOFTMAX = [
    suspect("softmax-over-queries", weights=_over(-2)),
    suspect("softmax-over-heads", weights=_over(1)),
    suspect("softmax-over-heads", weights=_over(0)),
    suspect("softmax-over-everything", weights=_over(-2, -1)),
    suspect("softmax-over-everything", weights=_over(0, 1, 2, 3)),
    suspect("softmax-missing", weights=lambda m, s: m.nan_to_num(neginf=0.0), loose=4),
    suspect(
        "softmax-missing",
        weights=lambda m, s: m.nan_to_num(neginf=0.0) / m.nan_to_num(neginf=0.0).sum(-1, keepdim=True),
        loose=9,
    ),
    suspect("not-normalised", weights=lambda m, s: _exp(m), loose=4),
    suspect("not-normalised", weights=lambda m, s: m.exp(), loose=4),
    suspect("not-normalised", weights=lambda m, s: _exp(m) / m.shape[-1], loose=4),
    suspect("exp2-base", weights=_base_two),
    suspect("softmax-twice", weights=lambda m, s: m.softmax(-1).softmax(-1)),
    suspect("softmax-log", weights=lambda m, s: m.log_softmax(-1).nan_to_num(neginf=0.0), loose=4),
]


def _scores_in(dtype: torch.dtype) -> Callable[[Tensor, Tensor, float], Tensor]:
    return lambda q, k, scale: (q.to(dtype) @ k.to(dtype).mT).to(q.dtype) * scale


def _values_in(dtype: torch.dtype) -> Callable[[Tensor, Scene], Tensor]:
    return lambda w, scene: (w.to(dtype) @ scene.v.to(dtype)).to(w.dtype)


def _regrouped(k: Tensor, block: int) -> Tensor:
    """Every tile of keys viewed as [D, keys] without a transpose."""
    return torch.cat([part.reshape(*k.shape[:2], k.shape[3], -1).mT for part in k.split(block, dim=2)], dim=2)


FACTORS = [
    suspect("weights-transposed", values=lambda w, s: w.mT @ s.v),
    suspect("weights-transposed", scores=lambda q, k, s: (k @ q.mT) * s),
    suspect("keys-as-values", values=lambda w, s: w @ s.k),
    suspect("wrong-factors", scores=lambda q, k, s: (q @ q.mT) * s),
    suspect("wrong-factors", scores=lambda q, k, s: (k @ k.mT) * s),
    suspect("wrong-factors", values=lambda w, s: s.v),
    suspect("keys-reshaped", inputs=lambda q, k, v, c: (q, _regrouped(k, c.block_kv or k.shape[2]), v)),
    suspect("keys-reshaped", scores=lambda q, k, s: (q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2])) * s),
    *(
        suspect("low-precision", scores=_scores_in(dtype), values=values)
        for dtype in (torch.float16, torch.bfloat16)
        for values in (lambda w, s: w @ s.v, _values_in(dtype))
    ),
    suspect("low-precision", values=_values_in(torch.float16)),
    suspect("low-precision", values=_values_in(torch.bfloat16)),
    suspect("scores-negated", scores=lambda q, k, s: -(q @ k.mT) * s),
    suspect("output-extra-term", values=lambda w, s: w @ s.v + s.q),
    suspect("output-extra-term", values=lambda w, s: w @ s.v + s.v),
    suspect("heads-added", values=lambda w, s: (w @ s.v).sum(1, keepdim=True).expand_as(s.v)),
    suspect("heads-added", values=lambda w, s: (w @ s.v).mean(1, keepdim=True).expand_as(s.v)),
    suspect("one-query-head", values=lambda w, s: w[:, :1] @ s.v),
    suspect("one-query-head", values=lambda w, s: (w[:, :1] @ s.v[:, :1]).expand_as(s.v)),
    suspect("batch-mixed", values=lambda w, s: w[:1] @ s.v),
    suspect("batch-mixed", values=lambda w, s: (w[:1] @ s.v[:1]).expand_as(s.v)),
]


def _pick(index: Callable[[int, int, int], int]) -> Callable[[Tensor, int], Tensor]:
    """Query head h of n reads kv head index(h, n, n2)."""

    def heads(x: Tensor, n: int) -> Tensor:
        return x[:, [index(h, n, x.shape[1]) for h in range(n)]]

    return heads


def _mean(x: Tensor, n: int) -> Tensor:
    return x.mean(1, keepdim=True).expand(-1, n, -1, -1)


HEADS = [
    suspect("gqa-interleaved", heads=_pick(lambda h, n, n2: h % n2)),
    suspect("gqa-one-head", heads=_pick(lambda h, n, n2: 0)),
    suspect("gqa-one-head", heads=_pick(lambda h, n, n2: n2 - 1)),
    suspect("gqa-one-head", heads=lambda x, n: _mean(x, n)),
    suspect("gqa-clamped", heads=_pick(lambda h, n, n2: min(h, n2 - 1))),
    suspect("gqa-group-size", heads=_pick(lambda h, n, n2: min(h // n2, n2 - 1) if n2 < n else h)),
    suspect("gqa-reversed", heads=_pick(lambda h, n, n2: n2 - 1 - h // (n // n2))),
    suspect("gqa-reversed", heads=_pick(lambda h, n, n2: (n - 1 - h) % n2)),
]


def _grid(case: Attention) -> tuple[Tensor, Tensor, int]:
    """Query index [S1, 1], key index [1, S2], and S2 - S1."""
    s1, s2 = case.q.shape[2], case.k.shape[2]
    return torch.arange(s1)[:, None], torch.arange(s2)[None, :], s2 - s1


Rule = Callable[[Tensor, Tensor, int, Attention], Tensor]


def causal(rule: Rule) -> Callable[[Attention], Tensor]:
    """Visible keys by ``rule(i, j, S2 - S1, case)`` in causal cases, as they should be in others."""

    def visible(case: Attention) -> Tensor:
        i, j, offset = _grid(case)
        return rule(i, j, offset, case) & (i >= 0) if case.mask_mode == 3 else case.visible

    return visible


def local(i: Tensor, j: Tensor, offset: int, case: Attention) -> Tensor:
    """Causal inside every tile on its own, as if each began at 0."""
    return j % case.block_kv <= i % case.block_q


def local_below(i: Tensor, j: Tensor, offset: int, case: Attention) -> Tensor:
    """The same, but tiles that lie wholly above the diagonal are skipped."""
    above = (j // case.block_kv) * case.block_kv > (i // case.block_q + 1) * case.block_q - 1 + offset
    return local(i, j, offset, case) & ~above


def tile_corner(i: Tensor, j: Tensor, offset: int, case: Attention) -> Tensor:
    """Whole tiles only: a tile that the diagonal cuts is open."""
    return (j // case.block_kv) * case.block_kv <= (i // case.block_q + 1) * case.block_q - 1 + offset


def whole_below(i: Tensor, j: Tensor, offset: int, case: Attention) -> Tensor:
    """Whole tiles only: a tile that the diagonal cuts is dropped."""
    return (j // case.block_kv + 1) * case.block_kv - 1 <= (i // case.block_q) * case.block_q + offset


def tile_index(i: Tensor, j: Tensor, offset: int, case: Attention) -> Tensor:
    """Tile numbers compared as if they were positions, and the exact mask inside."""
    return (j // case.block_kv <= i // case.block_q) & (j <= i + offset)


def _instead(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, visible: scores.masked_fill(~visible, value)


def _added(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, visible: scores + value * (~visible)


def _keep(scores: Tensor, visible: Tensor) -> Tensor:
    return scores


def _cut(w: Tensor, scene: Scene) -> Tensor:
    return w.masked_fill(~scene.visible, 0.0)


def _untouched(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    """Rows without a visible key keep what the other steps gave them."""
    return out, lse


CAUSAL = [
    suspect("causal-ignored", visible=causal(lambda i, j, o, c: j >= 0)),
    suspect("causal-strict", visible=causal(lambda i, j, o, c: j < i + o)),
    suspect("causal-strict", visible=causal(lambda i, j, o, c: j < i + o), empty=_untouched),
    suspect("causal-strict", visible=causal(lambda i, j, o, c: j < i + o), fill=_instead(-1e9), empty=_untouched),
    suspect("causal-one-ahead", visible=causal(lambda i, j, o, c: j <= i + o + 1)),
    suspect("causal-top-left", visible=causal(lambda i, j, o, c: j <= i)),
    suspect("causal-inverted", visible=causal(lambda i, j, o, c: j >= i + o)),
    suspect("causal-inverted", visible=causal(lambda i, j, o, c: j > i + o)),
    suspect("causal-inverted", visible=causal(lambda i, j, o, c: j > i + o), empty=_untouched),
    suspect("causal-inverted", visible=causal(lambda i, j, o, c: j > i + o), fill=_instead(-1e9), empty=_untouched),
    suspect("causal-inverted", visible=causal(lambda i, j, o, c: j >= i)),
    suspect("causal-offset-sign", visible=causal(lambda i, j, o, c: j <= i - o)),
    suspect("causal-offset-sign", visible=causal(lambda i, j, o, c: j <= i - o), empty=_untouched),
    suspect("causal-offset-sign", visible=causal(lambda i, j, o, c: j <= i - o), fill=_instead(-1e9), empty=_untouched),
    suspect("causal-after-softmax", fill=_keep, reweigh=_cut),
    suspect("causal-after-softmax", fill=_keep, reweigh=_cut, empty=_untouched),
    suspect("causal-fill", fill=_instead(0.0)),
    suspect("causal-fill", fill=_instead(-1.0)),
    suspect("causal-fill", fill=_instead(1e-9)),
    suspect("causal-fill", fill=_instead(-10.0)),
    suspect("causal-fill", fill=_added(-1.0)),
    suspect("causal-fill", fill=_added(-10.0)),
    suspect("causal-fill", fill=_instead(math.inf)),
    suspect("causal-fill", fill=_instead(1e9)),
    *(
        suspect("causal-fill", fill=fill, skip_tiles=bool)
        for fill in (_instead(0.0), _instead(-1.0), _instead(-10.0), _added(-1.0), _added(-10.0), _instead(1e-9))
    ),
    suspect("causal-after-softmax", fill=_keep, skip_tiles=bool, reweigh=_cut),
    suspect("causal-ignored", fill=_keep),
    suspect("causal-local-index", visible=causal(local)),
    suspect("causal-local-index", visible=causal(local_below)),
    suspect("causal-diagonal-tiles", visible=causal(tile_corner)),
    suspect("causal-diagonal-tiles", visible=causal(whole_below)),
    suspect("causal-tile-index", visible=causal(tile_index)),
]


def _nan(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
    return out.masked_fill(~scene.rows, math.nan), lse.masked_fill(~scene.rows[:, 0], math.inf)


def _average(block: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    def empty(out: Tensor, lse: Tensor, scene: Scene) -> tuple[Tensor, Tensor]:
        length = scene.case.block_kv if block and scene.case.block_kv else scene.v.shape[2]
        average = scene.v[:, :, :length].mean(2, keepdim=True)
        return torch.where(scene.rows, out, average), lse

    return empty


EMPTY_ROWS = [
    suspect("empty-row-nan", empty=_nan),
    suspect("empty-row-average", empty=_average(block=False)),
    suspect("empty-row-average", empty=_average(block=True)),
    suspect("empty-row-sum", empty=lambda out, lse, s: (torch.where(s.rows, out, s.v.sum(2, keepdim=True)), lse)),
]

__all__ = ["CAUSAL", "EMPTY_ROWS", "FACTORS", "HEADS", "SCALE", "SOFTMAX"]
