"""Wrong ideas about the backward pass, as replaced steps of :func:`grader.checking.gradients.gradients`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, HEADS
from grader.checking.cases import Attention
from grader.checking.diagnose import Suspect
from grader.checking.gradients import Changes, Scene, gradients
from grader.checking.wrong_attention import shifted

from .mask_mistakes import WINDOW


def row(id: str, loose: float = 1.0, **changes: Callable[..., Any]) -> tuple[str, Changes, float]:
    return id, changes, loose


def one(case: Attention) -> float:
    return 1.0


def twice(case: Attention) -> float:
    return case.factor**2


def _order(*places: int) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *parts: tuple(parts[i] for i in places)


def _last(of: str) -> Callable[[Scene, Tensor], Tensor]:
    """Only the last tile's contribution: assigned where it should be added."""

    def step(s: Scene, ds: Tensor) -> Tensor:
        block_q, block_kv = s.case.block_q, s.case.block_kv
        if of == "dq":
            start = (ds.shape[-1] - 1) // block_kv * block_kv
            return ds[..., start:] @ s.k[..., start:, :]
        start = (ds.shape[-2] - 1) // block_q * block_q
        left = ds if of == "dk" else s.p
        return left[..., start:, :].mT @ (s.q if of == "dk" else s.dout)[..., start:, :]

    return step


def _full(of: str, *, queries: bool = True, kv: bool = True) -> Callable[[Scene, Tensor], Tensor]:
    """Tails left out: keys beyond the last whole tile, queries beyond it, or both."""

    def step(s: Scene, ds: Tensor) -> Tensor:
        rows = s.q.shape[2] // s.case.block_q * s.case.block_q if queries else s.q.shape[2]
        keys = s.k.shape[2] // s.case.block_kv * s.case.block_kv if kv else s.k.shape[2]
        ds, p = ds.clone(), s.p.clone()
        for x in (ds, p):
            x[..., rows:, :] = 0.0
            x[..., keys:] = 0.0
        return ds @ s.k if of == "dq" else ds.mT @ s.q if of == "dk" else p.mT @ s.dout

    return step


def _tile_d_term(s: Scene) -> Tensor:
    """rowsum(P * dP) of each tile for itself, spread over the tile's keys."""
    parts = (s.p * s.dp).split(s.case.block_kv, dim=-1)
    return torch.cat([part.sum(-1, keepdim=True).expand_as(part) for part in parts], dim=-1)


def _by_key(per_row: Tensor, s1: int, s2: int, block_q: int, block_kv: int) -> Tensor:
    """[.., S1] laid along the keys of every tile, as broadcasting does without a new axis; tiles must be square."""
    if block_q != block_kv or s1 != s2:
        raise ValueError("only square tiles broadcast")
    tile = torch.arange(s1)[:, None] // block_q * block_q  # where the row's tile of queries begins
    return per_row[..., tile + torch.arange(s2)[None, :] % block_kv]


def _lse_by_key(masked: Tensor, case: Attention) -> Tensor:
    lse = case.truth[1].to(masked.dtype)
    return (masked - _by_key(lse, *masked.shape[-2:], case.block_q, case.block_kv)).exp()


def _d_term_by_key(s: Scene) -> Tensor:
    d_term = (s.dout * s.out).sum(-1)
    return _by_key(d_term, *s.p.shape[-2:], s.case.block_q, s.case.block_kv)


def _tile_exp(masked: Tensor, case: Attention) -> Tensor:
    parts = masked.split(case.block_kv, dim=-1)
    return torch.cat([shifted(part, part.amax(-1, keepdim=True)) for part in parts], dim=-1)


def _tile_softmax(masked: Tensor, case: Attention) -> Tensor:
    parts = masked.split(case.block_kv, dim=-1)
    return torch.cat([part.softmax(-1).nan_to_num(0.0) for part in parts], dim=-1)


D_TERM = [
    row("d-term-missing", d_term=lambda s: torch.zeros_like(s.lse)),
    row("d-term-missing", ds=lambda s: s.p * s.dp),
    row("d-term-wrong", d_term=lambda s: s.dout.sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.out * s.out).sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.dout * s.dout).sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: s.out.sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.dout * s.out).mean(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: s.dp.sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: s.dp.mean(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: s.p.sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: s.lse.nan_to_num(posinf=0.0)),
    row("d-term-wrong", d_term=lambda s: (s.dout * s.v).sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.dout * s.q).sum(-1, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.p * s.dp).sum(-2, keepdim=True)),
    row("d-term-wrong", d_term=lambda s: (s.dout * s.out).sum(-1, keepdim=True) * s.case.factor),
    row("d-term-per-tile", d_term=_tile_d_term),
    row("d-term-sign", ds=lambda s: s.p * (s.dp + s.d_term)),
    row("d-term-outside", ds=lambda s: s.p * s.dp - s.d_term),
    row("ds-without-p", ds=lambda s: s.dp - s.d_term),
    row("ds-without-p", ds=lambda s: s.dp),
    row("ds-without-p", ds=lambda s: s.p - s.d_term),
    row("ds-sigmoid", ds=lambda s: s.p * (1 - s.p) * s.dp),
    row("ds-sigmoid", ds=lambda s: s.p * (s.dp - s.d_term) * (1 - s.p)),
]

SCALES = [
    row("scale-missing-dq", scale_q=one, loose=2),
    row("scale-missing-dk", scale_k=one, loose=2),
    row("scale-missing-gradients", scale_q=one, scale_k=one, loose=2),
    row("scale-in-dv", scale_v=lambda c: c.factor),
    row("scale-twice-gradients", scale_q=twice, scale_k=twice),
    row("scale-twice-gradients", scale_q=twice),
    row("scale-twice-gradients", scale_k=twice),
    row("scale-inverted-gradients", scale_q=lambda c: 1 / c.factor, scale_k=lambda c: 1 / c.factor, loose=4),
    row("scale-inverted-gradients", scale_q=lambda c: 1 / c.factor, loose=4),
    row("scale-inverted-gradients", scale_k=lambda c: 1 / c.factor, loose=4),
    row(
        "scale-ignored",
        scale=lambda c: 1 / math.sqrt(c.q.shape[-1]),
        scale_q=lambda c: 1 / math.sqrt(c.q.shape[-1]),
        scale_k=lambda c: 1 / math.sqrt(c.q.shape[-1]),
    ),
    row(
        "scale-ignored", scale_q=lambda c: 1 / math.sqrt(c.q.shape[-1]), scale_k=lambda c: 1 / math.sqrt(c.q.shape[-1])
    ),
    row("scale-ignored", scale=lambda c: 1 / math.sqrt(c.q.shape[-1])),
    row("scale-missing", scale=one, loose=9),
    row("scale-missing", scale=one, scale_q=one, scale_k=one, loose=9),
]

FACTORS = [
    row("gradient-factors", dq=lambda s, ds: ds @ s.q),
    row("gradient-factors", dq=lambda s, ds: ds.mT @ s.k),
    row("gradient-factors", dq=lambda s, ds: ds @ s.v),
    row("gradient-factors", dq=lambda s, ds: s.p @ s.k),
    row("gradient-factors", dk=lambda s, ds: ds.mT @ s.k),
    row("gradient-factors", dk=lambda s, ds: ds @ s.q),
    row("gradient-factors", dk=lambda s, ds: s.p.mT @ s.q),
    row("gradient-factors", dq=lambda s, ds: ds @ s.q, dk=lambda s, ds: ds.mT @ s.k),
    row("gradient-factors", dq=lambda s, ds: ds.mT @ s.k, dk=lambda s, ds: ds @ s.q),
    row("gradient-factors", dp=lambda dout, v: dout @ dout.mT),
    row("gradient-factors", ds=lambda s: s.p * (s.out @ s.v.mT - s.d_term)),
    row("gradient-factors", ds=lambda s: s.p * (s.dout @ s.k.mT - s.d_term)),
    row("dv-factors", dv=lambda s, ds: s.p @ s.dout),
    row("dv-factors", dv=lambda s, ds: ds.mT @ s.dout),
    row("dv-factors", dv=lambda s, ds: ds @ s.dout),
    row("dv-factors", dv=lambda s, ds: s.p.mT @ s.out),
    row("dv-factors", dv=lambda s, ds: s.dp.mT @ s.dout),
    row("dv-factors", dv=lambda s, ds: s.scores.mT @ s.dout, loose=4),
    row(
        "dv-unnormalised",
        dv=lambda s, ds: (s.scores - s.scores.amax(-1, keepdim=True)).exp().masked_fill(~s.visible, 0.0).mT @ s.dout,
        loose=4,
    ),
    row("dv-unnormalised", dv=lambda s, ds: s.scores.exp().masked_fill(~s.visible, 0.0).mT @ s.dout, loose=9),
    row("p-without-lse", p=lambda s, lse, seen: s.exp().masked_fill(~seen, 0.0), loose=9),
    row("p-without-lse", p=lambda s, lse, seen: (s - s.amax(-1, keepdim=True)).exp().masked_fill(~seen, 0.0), loose=4),
    row("p-per-tile", tile_p=_tile_softmax),
    row("p-without-lse", tile_p=_tile_exp, loose=4),
    row("lse-not-broadcast", tile_p=_lse_by_key, loose=9),
    row("lse-not-broadcast", d_term=_d_term_by_key),
    row("p-lse-sign", p=lambda s, lse, seen: (s + lse).exp().masked_fill(~seen, 0.0), loose=9),
    row("p-divided-by-lse", p=lambda s, lse, seen: (s.exp() / lse).masked_fill(~seen, 0.0), loose=9),
    row(
        "p-divided-by-lse",
        p=lambda s, lse, seen: ((s - s.amax(-1, keepdim=True)).exp() / lse).masked_fill(~seen, 0.0),
        loose=9,
    ),
    row("p-divided-by-lse", p=lambda s, lse, seen: (s / lse).exp().masked_fill(~seen, 0.0), loose=9),
    row("exp2-base", p=lambda s, lse, seen: (s - lse).exp2().masked_fill(~seen, 0.0)),
    row("softmax-over-queries", p=lambda s, lse, seen: s.masked_fill(~seen, -math.inf).softmax(-2).nan_to_num(0.0)),
    row("p-without-exp", p=lambda s, lse, seen: (s - lse).masked_fill(~seen, 0.0), loose=4),
    row("gradients-negated", dq=lambda s, ds: -(ds @ s.k), dk=lambda s, ds: -(ds.mT @ s.q)),
    row(
        "gradients-negated",
        dq=lambda s, ds: -(ds @ s.k),
        dk=lambda s, ds: -(ds.mT @ s.q),
        dv=lambda s, ds: -(s.p.mT @ s.dout),
    ),
    row("gradient-order", order=_order(1, 0, 2)),
    row("gradient-order", order=_order(0, 2, 1)),
    row("gradient-order", order=_order(2, 1, 0)),
    row("gradient-order", order=_order(2, 0, 1)),
    row("gradient-order", order=_order(1, 2, 0)),
]


def _ones(s: Scene) -> Tensor:
    return torch.ones_like(s.dout)


DOUT = [
    row("dout-ignored", dp=lambda dout, v: torch.ones_like(dout) @ v.mT, dv=lambda s, ds: s.p.mT @ _ones(s)),
    row(
        "dout-ignored",
        dp=lambda dout, v: torch.ones_like(dout) @ v.mT,
        d_term=lambda s: s.out.sum(-1, keepdim=True),
        dv=lambda s, ds: s.p.mT @ _ones(s),
    ),
]

TILES = [
    row("gradient-overwritten", dq=_last("dq")),
    row("gradient-overwritten", dk=_last("dk"), dv=_last("dv")),
    row("gradient-overwritten", dk=_last("dk")),
    row("gradient-overwritten", dv=_last("dv")),
    row("gradient-overwritten", dq=_last("dq"), dk=_last("dk"), dv=_last("dv")),
    row("tail-dropped", dq=_full("dq"), dk=_full("dk"), dv=_full("dv")),
    row("tail-dropped", dq=_full("dq", kv=False), dk=_full("dk", kv=False), dv=_full("dv", kv=False)),
    row("tail-dropped", dq=_full("dq", queries=False), dk=_full("dk", queries=False), dv=_full("dv", queries=False)),
]


def _folded(pick: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    return lambda x, n: pick(x.unflatten(1, (n, -1)))


GROUPS = [
    row("gqa-gradient-not-summed", fold=_folded(lambda x: x[:, :, 0])),
    row("gqa-gradient-not-summed", fold=_folded(lambda x: x[:, :, -1])),
    row("gqa-gradient-not-summed", fold=lambda x, n: x[:, :n]),
    row("gqa-gradient-mean", fold=_folded(lambda x: x.mean(2))),
    row("gqa-gradient-interleaved", fold=lambda x, n: x.unflatten(1, (-1, n)).sum(1)),
    row(
        "gqa-interleaved",
        heads=lambda x, n: x.repeat(1, n // x.shape[1], 1, 1),
        fold=lambda x, n: x.unflatten(1, (-1, n)).sum(1),
    ),
    row("gqa-interleaved", heads=lambda x, n: x.repeat(1, n // x.shape[1], 1, 1)),
]


def _masked(rows: list[Any]) -> list[tuple[str, Changes, float]]:
    return [
        row(id, visible=changes["visible"], loose=loose * 9)
        for id, changes, loose in rows
        if set(changes) == {"visible"}
    ]


_COMMON = [D_TERM[0], SCALES[0], SCALES[1], SCALES[2], SCALES[3], GROUPS[0], GROUPS[3]]


@cache
def backward_suspects() -> list[Suspect]:
    heads = [row(id, heads=changes["heads"]) for id, changes, _ in HEADS if id != "gqa-interleaved"]
    rows = [*D_TERM, *SCALES, *FACTORS, *DOUT, *TILES, *GROUPS, *heads, *_masked(CAUSAL), *_masked(WINDOW)]
    singles = [Suspect(id, _values(changes), loose=loose) for id, changes, loose in rows]
    pairs = []
    for i, (a, first, loose) in enumerate(_COMMON):
        for b, second, other in _COMMON[i + 1 :]:
            if a != b and not set(first) & set(second):
                pairs.append(Suspect(a, _values({**first, **second}), also=b, loose=loose * other))
    return singles + pairs


def _values(changes: Changes) -> Callable[[Attention], dict[str, Tensor]]:
    return lambda case: gradients(case, changes)
