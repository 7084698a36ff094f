"""Checks of s1-module, against torch.nn.MultiheadAttention with the same weights."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from grader.checking.cases import normal
from grader.checking.examine import Examination, all_right, only, repeatable
from grader.checking.modules import (
    Module,
    draw_module,
    module_suspects,
    one_head,
    require_gradient,
    require_parameters,
    require_value_error,
)
from grader.vocabulary import Context, check, say

MODULE = "StandardAttention"


@check("s1-module.parameters", points=0, concept="module")
def module_parameters(ctx: Context) -> None:
    """The four projections exist under their names, with weights and biases of the right shapes."""
    require_parameters(ctx, ctx.subject.state(ctx.subject.construct(MODULE, 12, 3)), 12)


def _call_module(ctx: Context, case: Module) -> Any:
    handle = ctx.subject.construct(MODULE, case.hidden, case.heads)
    ctx.subject.load_state(handle, {**ctx.subject.state(handle), **case.state})
    return ctx.subject.forward(handle, case.x).value


def _module(make: Any, **more: Any) -> Examination:
    return Examination(
        call=_call_module, make=make, expect=lambda case: {"output": case.expected}, suspects=module_suspects, **more
    )


@check("s1-module.values", points=12, concept="module", needs=("s1-module.parameters",))
def module_values(ctx: Context) -> None:
    """One head, so that nothing but the projections and attention itself can be wrong."""
    sizes = ((2, 7, 1, 8), (3, 5, 1, 6))
    _module(
        lambda rng, n: draw_module(rng, *sizes[n]),
        catch=lambda: only(
            module_suspects(), "scale-missing", "out-proj-missing", "bias-missing", "projection-swapped"
        ),
    ).run(ctx)


@check("s1-module.heads", points=10, concept="heads", needs=("s1-module.values",))
def module_heads(ctx: Context) -> None:
    """Several heads, against torch.nn.MultiheadAttention with the same weights."""
    sizes = ((2, 6, 4, 3), (3, 5, 2, 4))
    _module(
        lambda rng, n: draw_module(rng, *sizes[n]),
        otherwise="heads-handling",
        control=lambda ctx, case: all_right(_call_module(ctx, one_head(case)), {"output": one_head(case).expected}),
        catch=lambda: only(module_suspects(), "heads-split", "heads-merge", "heads-not-split"),
    ).run(ctx)


@check("s1-module.shape", points=3, concept="module", needs=("s1-module.values",))
def module_shape(ctx: Context) -> None:
    """The shapes of the course text: 768 wide, 12 heads, [2, 128, 768] in and out."""
    handle = ctx.subject.construct(MODULE, 768, 12)
    got = ctx.subject.forward(handle, normal(ctx.rng(), 2, 128, 768)).value
    if not isinstance(got, Tensor) or list(got.shape) != [2, 128, 768]:
        shape = list(got.shape) if isinstance(got, Tensor) else type(got).__name__
        ctx.fail(
            say(
                "输出形状应是 [2, 128, 768]，得到 {shape}。",
                "The output must be [2, 128, 768], it is {shape}.",
                shape=shape,
            ),
            evidence={"shape": shape, "expected": [2, 128, 768]},
        )
    if not bool(got.isfinite().all()):
        ctx.fail(say("输出里有 NaN 或无穷大。", "The output holds NaN or infinity."), misconception="unstable-softmax")


@check("s1-module.indivisible", points=3, concept="heads", needs=("s1-module.parameters", "s1-module.values"))
def module_indivisible(ctx: Context) -> None:
    require_value_error(ctx, MODULE, (10, 3))


@check("s1-module.gradient", points=0.5, concept="module", needs=("s1-module.parameters", "s1-module.values"))
def module_gradient(ctx: Context) -> None:
    """A module is there to be trained."""
    case = draw_module(ctx.rng(), 2, 6, 1, 8)
    require_gradient(ctx, ctx.subject.forward(ctx.subject.construct(MODULE, case.hidden, case.heads), case.x))


@check("s1-module.repeat", points=1.5, concept="repeatable", needs=("s1-module.values",))
def module_repeat(ctx: Context) -> None:
    """Another length and batch after the first, and the first again: nothing may be remembered, nothing is random."""
    a, b = draw_module(ctx.rng("a"), 2, 6, 1, 8), draw_module(ctx.rng("b"), 1, 9, 1, 8)
    handle = ctx.subject.construct(MODULE, a.hidden, a.heads)
    repeatable(ctx, lambda ctx, case: ctx.subject.forward(handle, case.x).value, [a, b])
