"""Wrong ideas about softmax and about attention, each as something that can be computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, EMPTY_ROWS, FACTORS, HEADS, SCALE, SOFTMAX
from grader.checking.compare import Expected, eps
from grader.checking.diagnose import Suspect
from grader.checking.wrong_attention import Scene, pairs, suspect, suspects
from grader.text import Text, say

# softmax ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Softmax:
    """One call of ``softmax(x, dim)``; ``given`` is False when the call leaves ``dim`` to its default, as most do: a
    function that takes none fails where ``dim`` is the matter."""

    x: Tensor
    dim: int = -1
    given: bool = False

    @cached_property
    def expected(self) -> Expected:
        truth = self.x.double().softmax(self.dim)
        spread = float(
            (self.x.double() - self.x.double().amax(self.dim, keepdim=True)).nan_to_num(neginf=0.0).abs().max()
        )
        return Expected("softmax", truth, 8 * eps(self.x.dtype) * (1 + min(spread, 100.0)), self.x.dtype)

    def describe(self) -> Text:
        dim = self.dim if self.given else "default"
        line = f"x {list(self.x.shape)} {str(self.x.dtype).removeprefix('torch.')} dim={dim}"
        return say(line, line)


def _softmax(id: str, compute: Callable[[Tensor, int], Tensor]) -> Suspect:
    return Suspect(id, lambda case: {"softmax": compute(case.x, case.dim)}, loose=4)


def _stable(x: Tensor, dim: int) -> Tensor:
    return (x - x.amax(dim, keepdim=True)).exp()


@cache
def softmax_suspects() -> list[Suspect]:
    return [
        _softmax("softmax-dim-ignored", lambda x, d: x.softmax(-1)),
        _softmax("softmax-dim-ignored", lambda x, d: x.softmax(0)),
        _softmax("softmax-dim-ignored", lambda x, d: x.softmax(1 if x.dim() > 1 else 0)),
        _softmax("softmax-dim-ignored", lambda x, d: x.softmax(-2 if x.dim() > 1 else 0)),
        _softmax("softmax-dim-ignored", lambda x, d: _stable(x, d) / _stable(x, d).sum(-1, keepdim=True)),
        _softmax("keepdim-missing", lambda x, d: (x - x.amax(d)).exp() / (x - x.amax(d)).exp().sum(d)),
        _softmax("keepdim-missing", lambda x, d: (x - x.amax(d)).exp() / (x - x.amax(d)).exp().sum(d, keepdim=True)),
        _softmax("keepdim-missing", lambda x, d: _stable(x, d) / _stable(x, d).sum(d)),
        _softmax("keepdim-missing", lambda x, d: x.exp() / x.exp().sum(d)),
        _softmax("softmax-over-everything", lambda x, d: _stable(x, d) / _stable(x, d).sum()),
        _softmax("softmax-over-everything", lambda x, d: (x - x.max()).exp() / (x - x.max()).exp().sum()),
        _softmax("not-normalised", _stable),
        _softmax("not-normalised", lambda x, d: x.exp()),
        _softmax("not-normalised", lambda x, d: _stable(x, d) / x.shape[d]),
        _softmax("not-normalised", lambda x, d: _stable(x, d) / _stable(x, d).amax(d, keepdim=True)),
        _softmax("not-normalised", lambda x, d: x / x.sum(d, keepdim=True)),
        _softmax("exp2-base", lambda x, d: (x * math.log(2)).softmax(d)),
        _softmax("softmax-log", lambda x, d: x.log_softmax(d)),
        _softmax("softmax-sign", lambda x, d: (-x).softmax(d)),
        _softmax("no-max-subtraction", lambda x, d: x.exp() / x.exp().sum(d, keepdim=True)),
        _softmax("no-max-subtraction", _clamped),
        _softmax("max-over-everything", lambda x, d: _shifted(x, x.max(), d)),
        _softmax("max-over-everything", lambda x, d: _shifted(x, x.amax(-1, keepdim=True), d)),
        _softmax("max-other-quantity", lambda x, d: _shifted(x, x.mean(d, keepdim=True), d)),
        _softmax("max-other-quantity", lambda x, d: _shifted(x, x.abs().amax(d, keepdim=True), d)),
        _softmax("max-other-quantity", lambda x, d: _shifted(x, x.amin(d, keepdim=True), d)),
        _softmax("max-other-quantity", lambda x, d: _shifted(x, x.amax(d, keepdim=True).clamp(min=0), d)),
    ]


def _shifted(x: Tensor, reference: Tensor, dim: int) -> Tensor:
    p = (x - reference).exp()
    return p / p.sum(dim, keepdim=True)


def _clamped(x: Tensor, dim: int) -> Tensor:
    p = x.clamp(max=80.0).exp()
    return p / p.sum(dim, keepdim=True)


# attention -------------------------------------------------------------------------------------------------------


def _no_max(masked: Tensor, scene: Scene) -> Tensor:
    p = masked.exp()
    return p / p.sum(-1, keepdim=True)


def _nan_to_zero(w: Tensor, scene: Scene) -> Tensor:
    """A guard for rows without keys, which also hides 0/0 and inf/inf."""
    return w.nan_to_num(0.0)


def _global_max(masked: Tensor, scene: Scene) -> Tensor:
    p = (masked - masked.max()).exp()
    return p / p.sum(-1, keepdim=True)


def _max_over(*dims: int) -> Callable[[Tensor, Scene], Tensor]:
    def weights(masked: Tensor, scene: Scene) -> Tensor:
        p = (masked - masked.amax(dims, keepdim=True)).exp()
        return p / p.sum(-1, keepdim=True)

    return weights


def _mean_shift(masked: Tensor, scene: Scene) -> Tensor:
    p = (masked - masked.mean(-1, keepdim=True)).exp()
    return p / p.sum(-1, keepdim=True)


def _abs_shift(masked: Tensor, scene: Scene) -> Tensor:
    p = (masked - masked.abs().amax(-1, keepdim=True)).exp()
    return p / p.sum(-1, keepdim=True)


def _max_at_least_zero(masked: Tensor, scene: Scene) -> Tensor:
    p = (masked - masked.amax(-1, keepdim=True).clamp(min=0.0)).exp()
    return p / p.sum(-1, keepdim=True)


STABILITY = [
    suspect("no-max-subtraction", weights=_no_max),
    suspect("no-max-subtraction", fill=lambda s, v: s.clamp(max=80.0).masked_fill(~v, -math.inf)),
    suspect("no-max-subtraction", fill=lambda s, v: s.clamp(min=-80.0, max=80.0).masked_fill(~v, -math.inf)),
    suspect("no-max-subtraction", weights=_no_max, reweigh=_nan_to_zero),
    suspect("max-over-everything", weights=_global_max, reweigh=_nan_to_zero),
    suspect("max-over-everything", weights=_global_max),
    suspect("max-over-everything", weights=_max_over(2, 3)),
    suspect("max-over-everything", weights=_max_over(2)),
    suspect("max-over-everything", weights=_max_over(1)),
    suspect("max-other-quantity", weights=_mean_shift),
    suspect("max-other-quantity", weights=_abs_shift),
    suspect("max-other-quantity", weights=_max_at_least_zero),
]

# the five commonest, also looked for in pairs
_COMMON = [SCALE[0], SCALE[1], SOFTMAX[0], CAUSAL[0], CAUSAL[1], CAUSAL[5], HEADS[0]]


@cache
def attention_suspects() -> list[Suspect]:
    rows = [*SCALE, *SOFTMAX, *FACTORS, *CAUSAL, *HEADS, *EMPTY_ROWS, *STABILITY]
    return suspects(rows) + pairs(_COMMON)
