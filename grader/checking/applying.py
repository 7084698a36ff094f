"""What checks of an ``autograd.Function`` share: ``apply`` gives (attn_out, softmax_lse), its backward dq, dk, dv."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, returned, right
from grader.checking.gradients import NAMES
from grader.subject import Outcome, Raised
from grader.vocabulary import Context, say

OUTPUTS = ("attn_out", "softmax_lse")
ALL = (*OUTPUTS, *NAMES)


@contextmanager
def backward_errors_named() -> Iterator[None]:
    """What autograd says of a Function tells which idea is behind it."""
    try:
        yield
    except Raised as error:
        if "incorrect number of gradients" in error.text:
            error.misconception = "function-gradient-count"
        elif "does not require grad" in error.text:
            error.misconception = "function-not-differentiable"
        raise


def require_all(ctx: Context, value: Any) -> tuple[Tensor, ...]:
    """(attn_out, softmax_lse, dq, dk, dv) of a value ``(outputs, gradients)``."""
    outputs, gradients = value
    out, lse = require_tensors(ctx, outputs, OUTPUTS)
    if not isinstance(gradients, (tuple, list)) or not all(isinstance(g, Tensor) for g in gradients):
        ctx.fail(
            say(
                "q、k、v 都需要梯度，backward 给出的是 {got}。",
                "q, k and v all need a gradient, backward gave {got}.",
                got=returned(gradients),
            ),
            misconception="function-gradient-missing",
            evidence={"got": returned(gradients)},
        )
    return out, lse, *gradients


def require_lse(ctx: Context, outcome: Outcome, want: Expected) -> None:
    """softmax_lse comes back right and is marked non-differentiable."""
    _, lse = require_tensors(ctx, outcome.value[0], OUTPUTS)
    require_like(ctx, lse, want)
    if not right(lse, want):
        ctx.fail(describe(lse, want), misconception="lse-value", evidence=evidence_of(lse, want))
    if tuple(outcome.differentiable) != (True, False):
        ctx.fail(
            say(
                "attn_out 应可求导，softmax_lse 应标记为不可求导；得到 {got}。",
                "attn_out must be differentiable and softmax_lse marked as not; found {got}.",
                got=list(outcome.differentiable),
            ),
            misconception="lse-differentiable" if tuple(outcome.differentiable) == (True, True) else None,
            evidence={"got": list(outcome.differentiable), "expected": [True, False]},
        )


def require_partial(
    ctx: Context, differentiate: Callable[[Sequence[int]], Outcome], expected: Mapping[str, Expected]
) -> None:
    """Only some of q, k, v require a gradient: ``differentiate(wrt)`` for several choices."""
    for wrt in ((0,), (1, 2)):
        for place, got in zip(wrt, differentiate(wrt).value[1], strict=True):
            want = expected[NAMES[place]]
            if not isinstance(got, Tensor) or not right(got, want):
                ctx.fail(
                    say(
                        "只有 {names} 需要梯度时，{name} 不对。",
                        "When only {names} require a gradient, {name} is wrong.",
                        names=", ".join("qkv"[i] for i in wrt),
                        name=NAMES[place],
                    ),
                    misconception="function-partial-gradients",
                    evidence=evidence_of(got, want)
                    if isinstance(got, Tensor) and got.shape == want.value.shape
                    else {"got": returned(got)},
                )
