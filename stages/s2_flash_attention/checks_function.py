"""Checks of s2-function: forward and backward as one operation of autograd. ``values`` and ``memory`` gate the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.checking import gradients as back
from grader.checking.applying import ALL, OUTPUTS, backward_errors_named, require_all, require_lse, require_partial
from grader.checking.cases import Attention, Make, Shape, drawing, normal
from grader.checking.compare import Expected, require_tensors
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right
from grader.checking.gradients import NAMES, with_dout
from grader.checking.memory import Size, require_linear
from grader.subject import Outcome
from grader.vocabulary import Context, check, say

from . import forward_cases as cases
from .backward_mistakes import backward_suspects
from .checks_backward import long_case, require_gradients, shapes, upstream
from .forward_calls import Control

APPLY = "FlashAttentionFunction"
APPLY_VALUES, APPLY_MEMORY = "s2-function.values", "s2-function.memory"


def arguments(case: Attention) -> tuple[Any, ...]:
    """The positional arguments of ``apply``."""
    options = (case.scale, case.mask_mode, case.win_left, case.win_right, case.block_q, case.block_kv)
    return (case.q, case.k, case.v, *options)


def differentiate(ctx: Context, case: Attention, wrt: Sequence[int] = (0, 1, 2), **more: Any) -> Outcome:
    """apply, then the gradients of attn_out for the case's upstream gradient."""
    with backward_errors_named():
        return ctx.subject.backward(APPLY, arguments(case), (case.dout, None), wrt, **more)


def call_apply(ctx: Context, case: Attention) -> Any:
    """(attn_out, softmax_lse, dq, dk, dv)."""
    return require_all(ctx, differentiate(ctx, case).value)


def expect_apply(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected, **back.expected(case)}


def apply_suspects() -> list[Suspect]:
    """Wrong backward passes behind a right forward pass."""
    return [Suspect(s.id, _with_output(s.values), s.also, s.loose) for s in backward_suspects()]


def _with_output(values: Callable[[Attention], Any]) -> Callable[[Attention], dict[str, Tensor]]:
    return lambda case: {"attn_out": case.truth[0], **values(case)}


def applied(
    make: Make,
    otherwise: str | None = None,
    control: Control | None = None,
    suspects: Callable[[], Sequence[Suspect]] = tuple,
) -> Examination:
    return Examination(
        call=call_apply,
        make=upstream(make),
        expect=expect_apply,
        suspects=suspects,
        otherwise=otherwise,
        control=control,
        names=ALL,
        shapes=shapes,
    )


def applies(ctx: Context, case: Attention) -> bool:
    if case.dout is None or case.dout.shape[:3] != case.q.shape[:3]:
        case = with_dout(ctx.rng("control dout"), case)
    return all_right(call_apply(ctx, case), expect_apply(case), ALL)


@check(APPLY_VALUES, points=0, concept="autograd")
def function_values(ctx: Context) -> None:
    """apply gives attn_out, and its gradients are those of the formulas. Worth nothing without O(N) memory."""
    applied(cases.even, suspects=apply_suspects).run(ctx)
    other = with_dout(ctx.rng("other dout"), cases.even(ctx.rng("other"), 0))
    if not applies(ctx, other):  # the same shapes as before, other inputs
        ctx.fail(
            say(
                "换一组同样形状的输入再调用，结果就不对了。",
                "Called again with other inputs of the same shape, the result is wrong.",
            ),
            misconception="state-between-calls",
            evidence={"case": str(other.describe())},
        )
    case = with_dout(ctx.rng("again dout"), cases.even(ctx.rng("again"), 0))
    outputs, gradients = differentiate(ctx, case, between=arguments(other.but(scale=0.31))).value
    if not all_right((*outputs, *gradients), expect_apply(case), ALL):
        ctx.fail(
            say(
                "在前向与反向之间又调用了一次 apply，梯度就不对了：反向要用的东西得存在 ctx 上。",
                "With another call of apply between forward and backward the gradients are wrong: "
                "what backward needs belongs on ctx.",
            ),
            misconception="state-between-calls",
            evidence={"case": str(case.describe())},
        )


@check(APPLY_MEMORY, points=2.5, concept="linear-memory", needs=(APPLY_VALUES,))
def function_memory(ctx: Context) -> None:
    """Forward and backward: no N x N matrix is computed or saved."""
    require_linear(ctx, run_long)


def run_long(ctx: Context, size: Size) -> Outcome:
    case = long_case(ctx, size)
    outcome = differentiate(ctx, case, memory=True, observe=True)
    require_gradients(ctx, case, require_tensors(ctx, outcome.value[1], NAMES))
    return outcome


@check("s2-function.options", points=1, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_options(ctx: Context) -> None:
    """scale, masks and block sizes reach both passes; GQA, tails and S1 != S2 as well."""

    def plain(ctx: Context, case: Attention) -> bool:
        return applies(ctx, case.but(scale=None, mask_mode=0))

    def ungrouped(ctx: Context, case: Attention) -> bool:
        return applies(ctx, cases.ungrouped(case))

    scaled = drawing(Shape(1, 2, seq_q=32), Shape(1, 2, seq_q=32, dim=6), scales=(0.3,), block_q=16, block_kv=16)
    for make in (scaled, cases.causal, cases.window(11, 4)):
        applied(make, "function-options-lost", plain).run(ctx)
    applied(cases.gqa, "gqa-mapping", ungrouped, apply_suspects).run(ctx)


@check("s2-function.lse", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_lse(ctx: Context) -> None:
    """softmax_lse comes back right and is marked non-differentiable."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 0))
    require_lse(ctx, differentiate(ctx, case), case.expected_lse)


@check("s2-function.gradcheck", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_gradcheck(ctx: Context) -> None:
    """float64: gradients to float64 accuracy, and equal to finite differences of apply itself in random directions."""

    def in_float32(ctx: Context, case: Attention) -> bool:
        return applies(ctx, cases.in_float32(case))

    make = drawing(Shape(1, 2, seq_q=16, dim=6), dtype=torch.float64, block_q=8, block_kv=8)
    applied(make, "float64-lost", in_float32).run(ctx)
    case = with_dout(ctx.rng("dout"), make(ctx.rng("differences"), 0))
    gradients = require_tensors(ctx, differentiate(ctx, case).value[1], NAMES)
    directions = [
        normal(ctx.rng(f"direction {i}"), *x.shape, dtype=torch.float64) for i, x in enumerate((case.q, case.k, case.v))
    ]
    step = 1e-6

    def moved(sign: float) -> Tensor:
        q, k, v = (x + sign * step * u for x, u in zip((case.q, case.k, case.v), directions, strict=True))
        return require_tensors(ctx, ctx.subject.call(APPLY, *arguments(case.but(q=q, k=k, v=v))).value, OUTPUTS)[0]

    by_differences = float(((moved(1) - moved(-1)) * back.given_dout(case)).sum()) / (2 * step)
    by_gradients = float(sum((g * u).sum() for g, u in zip(gradients, directions, strict=True)))
    if not abs(by_differences - by_gradients) <= 1e-5 * (1 + abs(by_gradients)):
        ctx.fail(
            say(
                "沿随机方向的差分是 {a:.8g}，梯度给出 {b:.8g}：backward 不是这个 forward 的导数。",
                "Finite differences in a random direction give {a:.8g}, the gradients {b:.8g}: backward is not the "
                "derivative of this forward.",
                a=by_differences,
                b=by_gradients,
            ),
            evidence={"expected": by_differences, "got": by_gradients},
        )


@check("s2-function.partial", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_partial(ctx: Context) -> None:
    """Only some of q, k, v require a gradient."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 0))
    require_partial(ctx, lambda wrt: differentiate(ctx, case, wrt), back.expected(case))
