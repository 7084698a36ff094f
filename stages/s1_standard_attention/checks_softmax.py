"""Checks of s1-softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from grader.checking.cases import normal
from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.examine import Examination, all_right, only, unchanged
from grader.vocabulary import Context, check, say

from .mistakes import Softmax, softmax_suspects

Make = Callable[[np.random.Generator, int], Softmax]


def _call_softmax(ctx: Context, case: Softmax) -> Any:
    return ctx.subject.call("softmax", case.x, **({"dim": case.dim} if case.given else {})).value


def _softmax(
    make: Any, otherwise: str | None = None, control: Any = None, catch: tuple[str, ...] = (), **more: Any
) -> Examination:
    return Examination(
        call=_call_softmax,
        make=make,
        expect=lambda case: {"softmax": case.expected},
        suspects=softmax_suspects,
        otherwise=otherwise,
        control=control,
        catch=lambda: only(softmax_suspects(), *catch),
        **more,
    )


def is_right(ctx: Context, case: Softmax) -> bool:
    return all_right(_call_softmax(ctx, case), {"softmax": case.expected})


def _soft(ctx: Context, case: Softmax) -> bool:
    """The same call on moderate inputs is right."""
    return is_right(ctx, Softmax(case.x.clamp(-5, 5), case.dim, case.given))


def normals(*shapes: tuple[int, ...], dim: int | None = None) -> Make:
    """Case n: normal numbers of ``shapes[n]``, normalised along ``dim`` (None: the call does not say)."""

    def make(rng: np.random.Generator, n: int) -> Softmax:
        x = normal(rng, *shapes[n], spread=2.0)
        return Softmax(x) if dim is None else Softmax(x, dim, given=True)

    return make


@check("s1-softmax.values", points=3.5, concept="softmax")
def softmax_values(ctx: Context) -> None:
    """The definition, along the last dimension. Square first: there a lost dimension shows in the values."""
    _softmax(normals((6, 6), (9, 9))).run(ctx)
    _softmax(normals((5, 7), (3, 11)), catch=("not-normalised",)).run(ctx)


@check("s1-softmax.dim", points=4, concept="softmax-axis", needs=("s1-softmax.values",))
def softmax_dim(ctx: Context) -> None:
    """Any dimension, also counted from the end."""

    def along_the_last(ctx: Context, case: Softmax) -> bool:
        return is_right(ctx, Softmax(case.x))

    for dim in (1, -3, 2, 0, -2):
        _softmax(normals((4, 5, 6), (3, 6, 5), dim=dim), otherwise="softmax-dim", control=along_the_last).run(ctx)


def _raised(level: float) -> Make:
    def make(rng: np.random.Generator, n: int) -> Softmax:
        return Softmax(level + normal(rng, *((6, 9), (5, 12))[n], spread=3.0))

    return make


@check("s1-softmax.stable", points=4, concept="stability", needs=("s1-softmax.values",))
def softmax_stable(ctx: Context) -> None:
    """All entries near 1000, near -1000, rows of very different size, single entries far from their row."""
    before: list[Make] = []
    for make in (_raised(1000.0), _raised(-1000.0), _levels, _spikes):
        _softmax(make, otherwise="unstable-softmax", control=_soft, known=tuple(before)).run(ctx)
        before.append(make)


def _levels(rng: np.random.Generator, n: int) -> Softmax:
    """Rows of very different size: one maximum for all of them underflows most."""
    rows = 4 + n
    levels = torch.tensor([-900.0, -300.0, 0.0, 400.0, 800.0][:rows])[:, None]
    return Softmax(normal(rng, rows, 8 + n, spread=3.0) + levels)


def _spikes(rng: np.random.Generator, n: int) -> Softmax:
    """One entry of each row is far above the rest, or far below."""
    x = normal(rng, 6, 10 + n, spread=3.0)
    x[::2, 3] += 300.0
    x[1::2, 5] -= 300.0
    return Softmax(x)


@check("s1-softmax.masked", points=2, concept="stability", needs=("s1-softmax.values", "s1-softmax.stable"))
def softmax_masked(ctx: Context) -> None:
    def make(rng: np.random.Generator, n: int) -> Softmax:
        x = normal(rng, 6, 9 + n, spread=2.0)
        return Softmax(x.masked_fill(torch.arange(9 + n) >= torch.arange(2, 8)[:, None], -math.inf))

    _softmax(make, otherwise="softmax-infinity", control=_soft).run(ctx)


@check("s1-softmax.inputs", points=1, concept="inputs", needs=("s1-softmax.values",))
def softmax_inputs(ctx: Context) -> None:
    """x stays as it was; float64 in gives float64 out, to float64 accuracy."""
    unchanged(ctx, ctx.subject.call("softmax", normal(ctx.rng(), 4, 6)).changed, ("x",))

    def double(rng: np.random.Generator, n: int) -> Softmax:
        return Softmax(normal(rng, 5, 7 + n, dtype=torch.float64))

    def in_float32(ctx: Context, case: Softmax) -> bool:
        return is_right(ctx, Softmax(case.x.float()))

    lost = {torch.float32: "float64-lost"}
    _softmax(double, otherwise="float64-lost", dtypes=lost, control=in_float32).run(ctx)


@check("s1-softmax.half", points=0.5, concept="stability", needs=("s1-softmax.values",))
def softmax_half(ctx: Context) -> None:
    """Rows of 4096: a sum kept in 16 bits stops growing at 2048 (float16) or 256 (bfloat16). The dtype of the result
    is left open, so the tolerance is the coarser one of the two."""
    for dtype in (torch.float16, torch.bfloat16):
        x = normal(ctx.rng(str(dtype)), 2, 4096, spread=0.5).to(dtype)
        (got,) = require_tensors(ctx, ctx.subject.call("softmax", x).value, ("softmax",))
        exact = torch.softmax(x.double(), -1)
        expected = Expected("softmax", exact, 0.05 * float(exact.max()), got.dtype)
        case = say("{dtype}，形状 [2, 4096]", "{dtype}, shape [2, 4096]", dtype=dtype)
        require_like(ctx, got, expected, case=case)
        if not right(got, expected):
            evidence = evidence_of(got, expected, case)
            ctx.fail(describe(got, expected), misconception="half-sum", evidence=evidence)
