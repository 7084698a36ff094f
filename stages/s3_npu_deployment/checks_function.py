"""Checks of s3-function: flash_attn and flash_attn_grad as one operation of autograd. ``values`` gates the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.checking.applying import ALL, OUTPUTS, backward_errors_named, require_all, require_lse, require_partial
from grader.checking.cases import Attention
from grader.checking.compare import right
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right, only
from grader.checking.gradients import NAMES, with_dout
from grader.checking.hardware import backward_like_kernel
from grader.subject import Outcome, Raised
from grader.vocabulary import Context, check, say

from . import npu_cases as cases
from .npu_calls import (
    FLASH_ATTN,
    FLASH_ATTN_GRAD,
    LOST,
    out_shapes,
    refusals_named,
    require_operator,
    require_results,
    without_mask,
)
from .npu_cases import NpuCase, expect_gradients, expect_lse, expect_out, to_layout
from .npu_mistakes import forward_suspects, gradient_suspects

NPU_APPLY = "NpuFlashAttentionFunction"
NPU_APPLY_VALUES = "s3-function.values"

Make = Callable[..., NpuCase]
Control = Callable[[Context, NpuCase], bool]


def arguments(case: NpuCase) -> tuple[Any, ...]:
    """The positional arguments of ``apply``; those at the end that are defaults are left out."""
    options: list[Any] = [case.factor, case.mask_mode, case.win_left, case.win_right, case.layout]
    for default in ("BSND", -1, -1, 0):
        if options[-1] != default:
            break
        options.pop()
    return (*case.inputs(), *options)


def differentiate(ctx: Context, case: NpuCase, wrt: Sequence[int] = (0, 1, 2), between: Sequence[Any] = ()) -> Outcome:
    """apply, then the gradients of attn_out for the case's upstream gradient. Both operators must have run."""
    dout = case.laid_out(case.dout) if case.dout is not None else None
    with backward_errors_named(), refusals_named():
        outcome = ctx.subject.backward(NPU_APPLY, arguments(case), (dout, None), wrt, observe=True, between=between)
    require_operator(ctx, outcome, FLASH_ATTN, FLASH_ATTN_GRAD)
    return outcome


def call_apply(ctx: Context, case: NpuCase) -> Any:
    """(attn_out, softmax_lse, dq, dk, dv)."""
    outcome = differentiate(ctx, case)
    returned = require_all(ctx, outcome.value)
    if all_right(returned, expect_apply(case), ALL):  # wrong values say more about what is wrong
        own = "" if not all_right(returned[:2], expect_lse(case), OUTPUTS) else FLASH_ATTN
        require_results(ctx, outcome, FLASH_ATTN, own, *[FLASH_ATTN_GRAD] * 3)
    return returned


def expect_apply(case: NpuCase) -> dict[str, Any]:
    return {**expect_out(case), **expect_gradients(case)}


def apply_suspects() -> list[Suspect]:
    """A wrong backward pass behind a right forward pass. (A wrong forward pass shows in attn_out alone.)"""

    def with_output(suspect: Suspect) -> Suspect:
        def values(case: NpuCase) -> dict[str, Tensor]:
            return {"attn_out": to_layout(case.truth[0], case.layout), **suspect.values(case)}

        return Suspect(suspect.id, values, suspect.also, suspect.loose)

    return [with_output(suspect) for suspect in gradient_suspects()]


def drawn(make: Make) -> Make:
    return lambda rng, n: with_dout(rng, make(rng, n))


def applied(make: Make, otherwise: str | None = None, control: Control | None = None, **more: Any) -> Examination:
    return Examination(
        call=call_apply,
        make=drawn(make),
        expect=expect_apply,
        suspects=apply_suspects,
        otherwise=otherwise,
        control=control,
        names=ALL,
        shapes=out_shapes,
        **more,
    )


def forward_alone(make: Make) -> Examination:
    """attn_out by itself, so that what is wrong with the forward call gets its name first."""
    return Examination(
        call=call_apply,
        make=drawn(make),
        expect=expect_out,
        suspects=forward_suspects,
        names=ALL,
        shapes=out_shapes,
    )


def applies(ctx: Context, case: NpuCase) -> bool:
    return all_right(call_apply(ctx, case), expect_apply(case), ALL)


@check(NPU_APPLY_VALUES, points=5, concept="autograd")
def npu_function_values(ctx: Context) -> None:
    """The seeds' shape with GQA: attn_out, dq, dk, dv, from both operators."""
    forward_alone(cases.npu_drawing(cases.SMALL)).run(ctx)
    applied(cases.seeds).run(ctx)


NPU_APPLY_NEEDS = (NPU_APPLY_VALUES,)


@check("s3-function.scale", points=3, concept="scale", needs=NPU_APPLY_NEEDS)
def npu_function_scale(ctx: Context) -> None:
    """A scale other than 1/sqrt(D): the backward operator's default would be 1/sqrt(D), the forward's is 1.0."""
    forward_alone(cases.other_scale).run(ctx)
    catch = only(apply_suspects(), "scale-default-backward")
    applied(cases.other_scale, catch=lambda: catch).run(ctx)


@check("s3-function.masks", points=2, concept="causal", needs=NPU_APPLY_NEEDS)
def npu_function_masks(ctx: Context) -> None:
    """Causal and window in both passes; S1 != S2; rows that see no key have gradient 0."""

    def plain(ctx: Context, case: NpuCase) -> bool:
        return applies(ctx, without_mask(case))

    for make in (cases.causal, cases.causal_offset, cases.empty_rows, cases.window):
        forward_alone(make).run(ctx)
        applied(make, "function-options-lost", plain).run(ctx)


@check("s3-function.layout", points=2, concept="layouts", needs=NPU_APPLY_NEEDS)
def npu_function_layout(ctx: Context) -> None:
    """BNSD in both passes."""

    def in_bsnd(ctx: Context, case: NpuCase) -> bool:
        return applies(ctx, case.but(layout="BSND"))

    applied(cases.other_layout, "layout-ignored", in_bsnd).run(ctx)


@check("s3-function.two-calls", points=2, concept="autograd", needs=NPU_APPLY_NEEDS)
def npu_function_two_calls(ctx: Context) -> None:
    """Two layers: apply runs again, on other inputs, before the first call's backward."""
    case = drawn(cases.npu_drawing(cases.SMALL))(ctx.rng(), 0)
    other = cases.npu_drawing(cases.SMALL, scale=0.31, mask_mode=3)(ctx.rng("other"), 0)
    try:
        outcome = differentiate(ctx, case, between=arguments(other))
    except Raised as error:
        error.misconception = "state-between-calls"
        raise
    for name, got, want in zip(NAMES, outcome.value[1], expect_gradients(case).values(), strict=True):
        if not isinstance(got, Tensor) or not right(got, want):
            ctx.fail(
                say(
                    "在前向与反向之间又调用了一次 apply，{name} 就不对了：反向要用的东西得存在 ctx 上。",
                    "With another call of apply between forward and backward {name} is wrong: "
                    "what backward needs belongs on ctx.",
                    name=name,
                ),
                misconception="state-between-calls",
                evidence={"case": case.describe().en},
            )


@check("s3-function.lse", points=1, concept="autograd", needs=NPU_APPLY_NEEDS)
def npu_function_lse(ctx: Context) -> None:
    """softmax_lse comes back right and is marked non-differentiable."""
    case = drawn(cases.causal)(ctx.rng(), 0)
    require_lse(ctx, differentiate(ctx, case), case.expected_lse)


@check("s3-function.partial", points=1, concept="autograd", needs=NPU_APPLY_NEEDS)
def npu_function_partial(ctx: Context) -> None:
    """Only some of q, k, v require a gradient."""
    case = drawn(cases.npu_drawing(cases.SMALL))(ctx.rng(), 0)
    require_partial(ctx, lambda wrt: differentiate(ctx, case, wrt), expect_gradients(case))


@check("s3-function.bfloat16", points=1, concept="half-precision", needs=NPU_APPLY_NEEDS)
def npu_function_bfloat16(ctx: Context) -> None:
    """Gradients in the dtype of the inputs."""
    applied(cases.brain_float, "bfloat16-lost", lambda ctx, case: applies(ctx, in_half(case)), dtypes=LOST).run(ctx)


def in_half(case: NpuCase) -> NpuCase:
    dout = case.dout.half() if case.dout is not None else None
    return case.but(q=case.q.half(), k=case.k.half(), v=case.v.half(), dout=dout)


@check("s3-function.strided", points=1, concept="inputs", needs=NPU_APPLY_NEEDS)
def npu_function_strided(ctx: Context) -> None:
    """Inputs and an upstream gradient that are views."""

    def contiguous(ctx: Context, case: NpuCase) -> bool:
        return applies(ctx, case.but(strided=False))

    applied(cases.strided, "assumes-contiguous", contiguous).run(ctx)


@check("s3-function.hardware", points=0, concept="hardware", needs=NPU_APPLY_NEEDS)
def npu_function_hardware(ctx: Context) -> None:
    """The same gradients as the kernel of this machine's NPU."""

    def call(ctx: Context, case: Attention) -> Sequence[Tensor]:
        assert isinstance(case, NpuCase)
        return [to_layout(x, case.layout) for x in differentiate(ctx, case).value[1]]

    backward_like_kernel(ctx, [drawn(cases.seeds)(ctx.rng(), 0), drawn(cases.brain_float)(ctx.rng("b"), 1)], call)
