"""Checks of s3-module: float32 outside, float16 around the operator. ``values`` gates the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.cases import Attention, normal
from grader.checking.compare import Expected, describe, evidence_of, largest, largest_error, right
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right, only, repeatable
from grader.checking.modules import (
    Module,
    draw_module,
    merge,
    module_suspects,
    one_head,
    packed,
    project,
    require_gradient,
    require_parameters,
    require_value_error,
)
from grader.subject import Outcome, Raised
from grader.vocabulary import Context, check, say

from .npu_calls import FLASH_ATTN, refusals_named, require_npu, require_operator

NPU_MODULE = "NpuFlashAttention"
NPU_MODULE_VALUES = "s3-module.values"


def expected(case: Module) -> Expected:
    """The float64 truth; the tolerance is 4 times what rounding q, k, v and the attention to float16 once costs."""
    if "half" not in case.memo:
        state = {name: value.double() for name, value in case.state.items()}
        truth = packed(case.x.double(), case.heads, state)
        q, k, v = (x.half() for x in (case.inner().q, case.inner().k, case.inner().v))
        attended = merge(Attention(q, k, v).plain(scaled_first=False)[0].float())
        rounded = project(Module(attended, case.heads, case.state), "out_proj")
        tol = max(4 * largest_error(rounded, truth), 2e-3 * largest(truth.abs()))
        case.memo["half"] = Expected("output", truth, tol, torch.float32)
    return case.memo["half"]


def build(ctx: Context, case: Module) -> int:
    more = {"block_size": case.block_size} if case.block_size else {}
    handle = ctx.subject.construct(NPU_MODULE, case.hidden, case.heads, **more)
    ctx.subject.load_state(handle, {**ctx.subject.state(handle), **case.state})
    return handle


def observed(ctx: Context, case: Module) -> Outcome:
    handle = build(ctx, case)
    try:
        with refusals_named():
            outcome = ctx.subject.forward(handle, case.x, observe=True)
    except Raised as error:
        if "must have the same dtype" in error.text:  # a projection met the other precision
            error.misconception = "module-stays-half"
        raise
    require_operator(ctx, outcome, FLASH_ATTN)
    return outcome


def call_module(ctx: Context, case: Module) -> Any:
    outcome = observed(ctx, case)
    if all_right(outcome.value, {"output": expected(case)}):  # wrong values say more about what is wrong
        require_projections_only(ctx, outcome, case)
    return outcome.value


def require_projections_only(ctx: Context, outcome: Outcome, case: Module) -> None:
    """Beside the operator the module multiplies by its four weights, and that is all."""
    assert outcome.trace is not None
    rows, width = case.x[..., 0].numel(), case.hidden
    needed, done = 4 * 2 * rows * width**2, outcome.trace.flops
    exponentials = sum(outcome.trace.exponentials.values())
    if done > needed or exponentials:
        ctx.fail(
            say(
                "算子之外还算了 {done} 次浮点运算（四个投影只需 {needed} 次）和 {exponentials} 个指数："
                "Attention 应全部由算子来算。",
                "Beside the operator there are {done} floating-point operations (the four projections need {needed}) "
                "and {exponentials} exponentials: attention is the operator's part.",
                done=done,
                needed=needed,
                exponentials=exponentials,
            ),
            misconception="operator-for-show",
            evidence={"got": {"flops": done, "exponentials": exponentials}, "expected": needed},
        )


def half_suspects() -> list[Suspect]:
    """Without the one whose own rounding is too coarse to be told from others in float16."""
    return [suspect for suspect in module_suspects() if suspect.id != "scale-multiplied"]


def module(make: Any, **more: Any) -> Examination:
    return Examination(
        call=call_module,
        make=make,
        expect=lambda case: {"output": expected(case)},
        suspects=half_suspects,
        dtypes={torch.float16: "module-stays-half", torch.bfloat16: "module-stays-half"},
        **more,
    )


@check("s3-module.parameters", points=0, concept="module")
def npu_module_parameters(ctx: Context) -> None:
    """The parameters of StandardAttention, under the same names."""
    require_parameters(ctx, ctx.subject.state(ctx.subject.construct(NPU_MODULE, 128, 2)), 128)


def one_headed(rng: np.random.Generator, n: int) -> Module:
    return draw_module(rng, *((2, 32, 1, 64), (1, 37, 1, 128))[n])


@check(NPU_MODULE_VALUES, points=5, concept="module", needs=("s3-module.parameters",))
def npu_module_values(ctx: Context) -> None:
    """One head: float32 in and out, the numbers of standard attention up to float16, through the operator."""
    module(one_headed, catch=lambda: only(module_suspects(), "scale-missing", "out-proj-missing", "bias-missing")).run(
        ctx
    )
    require_npu(ctx, observed(ctx, one_headed(ctx.rng("device"), 0)))


MODULE_NEEDS = ("s3-module.parameters", NPU_MODULE_VALUES)


@check("s3-module.heads", points=2.5, concept="heads", needs=MODULE_NEEDS)
def npu_module_heads(ctx: Context) -> None:
    """Several heads, any length, and a block_size, which changes nothing."""

    def control(ctx: Context, case: Module) -> bool:
        single = one_head(case) if case.hidden <= 128 else Module(case.x[..., :64], 1, _cut(case), case.block_size)
        return all_right(call_module(ctx, single), {"output": expected(single)})

    sizes = ((2, 24, 4, 64, 16), (1, 45, 3, 64, 256))
    module(
        lambda rng, n: draw_module(rng, *sizes[n]),
        otherwise="heads-handling",
        control=control,
        known=(one_headed,),
        catch=lambda: only(module_suspects(), "heads-split", "heads-not-split"),
    ).run(ctx)


def _cut(case: Module) -> dict[str, torch.Tensor]:
    return {name: value[:64, :64] if value.dim() == 2 else value[:64] for name, value in case.state.items()}


@check("s3-module.indivisible", points=1, concept="heads", needs=MODULE_NEEDS)
def npu_module_indivisible(ctx: Context) -> None:
    require_value_error(ctx, NPU_MODULE, (130, 4))


@check("s3-module.gradient", points=1, concept="module", needs=MODULE_NEEDS)
def npu_module_gradient(ctx: Context) -> None:
    """A module is there to be trained: the gradient of its output reaches its input, through the operator."""
    case = draw_module(ctx.rng(), 2, 16, 1, 64)
    require_gradient(ctx, observed(ctx, case))
    dout = normal(ctx.rng("dout"), *case.x.shape)
    with refusals_named():
        (found,) = ctx.subject.backward(build(ctx, case), (case.x,), (dout,), (0,)).value[1]
    want, tol = input_gradient(case, dout)
    if not isinstance(found, Tensor):
        ctx.fail(
            say(
                "输出对输入没有梯度：计算图在中间断了。",
                "The output has no gradient with respect to the input: the graph is broken on the way.",
            ),
            misconception="module-detached",
            evidence={"got": "None"},
        )
    gradient = Expected("dx", want, tol, torch.float32)
    if not right(found, gradient):
        ctx.fail(
            describe(found, gradient),
            misconception="module-partly-detached",
            evidence=evidence_of(found, gradient, case.describe()),
        )


def input_gradient(case: Module, dout: Tensor) -> tuple[Tensor, float]:
    """d(sum(output * dout)) / dx in float64, and what float16 in the middle may cost."""
    x = case.x.double().requires_grad_()
    state = {name: value.double() for name, value in case.state.items()}
    packed(x, case.heads, state).backward(dout.double())
    assert x.grad is not None
    return x.grad, 2e-2 * largest(x.grad.abs())


@check("s3-module.repeat", points=0.5, concept="repeatable", needs=(*MODULE_NEEDS, "s3-module.heads"))
def npu_module_repeat(ctx: Context) -> None:
    """Another length and batch; then the first again."""
    a, b = draw_module(ctx.rng("a"), 2, 20, 2, 64), draw_module(ctx.rng("b"), 1, 33, 2, 64)
    handle = build(ctx, a)
    repeatable(ctx, lambda ctx, case: ctx.subject.forward(handle, case.x).value, [a, b])
