"""Wrong ideas about softmax_lse."""

from __future__ import annotations

import math
from functools import cache

from torch import Tensor

from grader.checking.diagnose import Suspect
from grader.checking.wrong_attention import Scene, all_tiles, suspect, suspects


def _reference(masked: Tensor) -> Tensor:
    return masked.amax(-1)


def _last_max(masked: Tensor, scene: Scene) -> Tensor:
    last = all_tiles(scene)[-1]
    top = masked.amax(-1)
    return masked[..., last].amax(-1) + (masked - top[..., None]).exp().sum(-1).log()


def _sum(masked: Tensor) -> Tensor:
    return (masked - masked.amax(-1, keepdim=True)).exp().sum(-1)


LSE = [
    suspect("lse-without-max", lse=lambda m, s: _sum(m).log()),
    suspect("lse-without-sum", lse=lambda m, s: _reference(m)),
    suspect("lse-base-2", lse=lambda m, s: m.logsumexp(-1) / math.log(2)),
    suspect("lse-base-2", lse=lambda m, s: _reference(m) + _sum(m).log2()),
    suspect("lse-base-10", lse=lambda m, s: _reference(m) + _sum(m).log10()),
    suspect("lse-without-log", lse=lambda m, s: _reference(m) + _sum(m)),
    suspect("lse-without-log", lse=lambda m, s: _sum(m)),
    suspect("lse-without-log", lse=lambda m, s: m.exp().sum(-1), loose=9),
    suspect("lse-unscaled", lse=lambda m, s: (m / s.case.factor).logsumexp(-1)),
    suspect("lse-unscaled", lse=lambda m, s: m.amax(-1) / s.case.factor + _sum(m).log()),
    suspect("lse-sign", lse=lambda m, s: -m.logsumexp(-1)),
    suspect("lse-sign", lse=lambda m, s: _reference(m) - _sum(m).log()),
    suspect("lse-sign", lse=lambda m, s: _sum(m).log() - _reference(m)),
    suspect("lse-product", lse=lambda m, s: _reference(m) * _sum(m).log()),
    suspect("lse-scaled-twice", lse=lambda m, s: m.logsumexp(-1) * s.case.factor),
    suspect("lse-scaled-twice", lse=lambda m, s: _reference(m) * s.case.factor + _sum(m).log()),
    suspect("lse-mean", lse=lambda m, s: m.logsumexp(-1) - math.log(m.shape[-1])),
    suspect("lse-log1p", lse=lambda m, s: _reference(m) + _sum(m).log1p()),
    suspect("lse-last-tile-max", lse=_last_max),
    suspect("lse-over-queries", lse=lambda m, s: m.logsumexp(-2)),
]


@cache
def lse_suspects() -> list[Suspect]:
    return suspects(LSE)
