"""Checks of s2-module. Its parameters are those of StandardAttention, so its values are checked with shared weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.examine import Examination, all_right, only, repeatable
from grader.checking.memory import Size, require_linear
from grader.checking.modules import (
    Module,
    draw_module,
    module_suspects,
    one_head,
    require_gradient,
    require_parameters,
    require_value_error,
)
from grader.subject import Outcome
from grader.vocabulary import Context, check, say

from .module_mistakes import tiled_module_suspects

MODULE = "FlashAttentionV1"
MODULE_VALUES, MODULE_MEMORY = "s2-module.values", "s2-module.memory"


def build(ctx: Context, case: Module) -> int:
    """A FlashAttentionV1 with the weights of the case."""
    handle = ctx.subject.construct(
        MODULE, case.hidden, case.heads, **({"block_size": case.block_size} if case.block_size else {})
    )
    ctx.subject.load_state(handle, {**ctx.subject.state(handle), **case.state})
    return handle


def call_module(ctx: Context, case: Module) -> Any:
    return ctx.subject.forward(build(ctx, case), case.x).value


def module(make: Any, **more: Any) -> Examination:
    return Examination(
        call=call_module,
        make=make,
        expect=lambda case: {"output": case.expected},
        suspects=lambda: [*module_suspects(), *tiled_module_suspects()],
        **more,
    )


def module_right(ctx: Context, case: Module) -> bool:
    return all_right(call_module(ctx, case), {"output": case.expected})


@check("s2-module.parameters", points=0, concept="module")
def flash_module_parameters(ctx: Context) -> None:
    """The same parameters as StandardAttention, under the same names."""
    require_parameters(ctx, ctx.subject.state(ctx.subject.construct(MODULE, 12, 3)), 12)


def one_headed(rng: np.random.Generator, n: int) -> Module:
    return draw_module(rng, *((2, 32, 1, 8, 8), (1, 36, 1, 6, 12))[n])


@check(MODULE_VALUES, points=0, concept="module", needs=("s2-module.parameters",))
def flash_module_values(ctx: Context) -> None:
    """One head, several whole blocks. Worth nothing without O(N) memory."""
    module(
        one_headed,
        catch=lambda: only(module_suspects(), "scale-missing", "out-proj-missing", "bias-missing"),
    ).run(ctx)


@check(MODULE_MEMORY, points=4, concept="linear-memory", needs=("s2-module.parameters", MODULE_VALUES))
def flash_module_memory(ctx: Context) -> None:
    """One head of 8, at a length where an N x N matrix takes many MB."""
    require_linear(ctx, run_long)


def run_long(ctx: Context, size: Size) -> Outcome:
    case = draw_module(ctx.rng(size.length), 1, size.length, 1, 8, size.block)
    outcome = ctx.subject.forward(build(ctx, case), case.x, memory=True, observe=True)
    (output,) = require_tensors(ctx, outcome.value, ("output",))
    require_like(ctx, output, Expected("output", case.x, 0.0, case.x.dtype), case=case.describe())
    rows = torch.from_numpy(np.sort(ctx.rng("rows").choice(size.length, 16, replace=False)))
    expected = rows_of(case, rows)
    if not right(output[:, rows], expected):
        ctx.fail(describe(output[:, rows], expected), evidence=evidence_of(output[:, rows], expected, case.describe()))
    return outcome


def rows_of(case: Module, rows: Tensor) -> Expected:
    """The module's output at some positions, attention by the oracle."""
    inner = case.inner()
    some = inner.but(q=inner.q[:, :, rows], block_q=0)
    weight, bias = case.state["out_proj.weight"].double(), case.state["out_proj.bias"].double()
    attended = some.truth[0].transpose(1, 2).flatten(2)
    tol = 4 * some.expected.tol * float(weight.abs().sum(1).max())
    return Expected("output", attended @ weight.T + bias, tol, case.x.dtype)


MODULE_NEEDS = ("s2-module.parameters", MODULE_VALUES, MODULE_MEMORY)


@check("s2-module.heads", points=2, concept="heads", needs=MODULE_NEEDS)
def flash_module_heads(ctx: Context) -> None:
    """Several heads: the same result as standard attention with shared weights."""
    sizes = ((2, 16, 4, 3, 8), (1, 24, 2, 4, 8))
    module(
        lambda rng, n: draw_module(rng, *sizes[n]),
        otherwise="heads-handling",
        control=lambda ctx, case: module_right(ctx, one_head(case)),
        known=(one_headed,),
        catch=lambda: only(module_suspects(), "heads-split", "heads-merge", "heads-not-split"),
    ).run(ctx)


@check("s2-module.tails", points=2, concept="tail-tiles", needs=(*MODULE_NEEDS, "s2-module.heads"))
def flash_module_tails(ctx: Context) -> None:
    """A length that is no multiple of block_size, and one below it."""

    def control(ctx: Context, case: Module) -> bool:
        length = max(case.x.shape[1] // case.block_size, 1) * case.block_size
        x = case.x.repeat(1, 1 + length // case.x.shape[1], 1)[:, :length]
        return module_right(ctx, Module(x, case.heads, case.state, case.block_size))

    for length, block in ((29, 8), (13, 16), (5, 256)):
        module(
            lambda rng, n, length=length, block=block: draw_module(rng, 1 + n, length + 2 * n, 2, 4, block),
            otherwise="tail-tiles",
            control=control,
            known=(one_headed,),
        ).run(ctx)


@check("s2-module.block-size", points=1, concept="tile-size", needs=MODULE_NEEDS)
def flash_module_block_size(ctx: Context) -> None:
    """block_size is honoured: with 5 x 5 blocks of 16 nothing larger than the activations appears."""
    case = draw_module(ctx.rng(), 1, 80, 1, 4, 16)
    outcome = ctx.subject.forward(build(ctx, case), case.x, observe=True)
    trace = outcome.trace
    limit = 1.5 * 80 * 4
    if trace is not None and trace.largest > limit:
        ctx.fail(
            say(
                "block_size=16 时出现了 {shape} 的中间张量（{op}）。",
                "With block_size=16 an intermediate of shape {shape} appeared ({op}).",
                shape=list(trace.largest_shape),
                op=trace.largest_op,
            ),
            misconception="block-size-ignored",
            evidence={"max_error": trace.largest, "tolerance": limit, "shape": list(trace.largest_shape)},
        )


@check("s2-module.indivisible", points=0.5, concept="heads", needs=MODULE_NEEDS)
def flash_module_indivisible(ctx: Context) -> None:
    require_value_error(ctx, MODULE, (10, 3))


@check("s2-module.gradient", points=0.25, concept="module", needs=MODULE_NEEDS)
def flash_module_gradient(ctx: Context) -> None:
    """A module is there to be trained."""
    case = draw_module(ctx.rng(), 2, 16, 1, 8, 8)
    require_gradient(ctx, ctx.subject.forward(build(ctx, case), case.x))


@check(
    "s2-module.repeat", points=0.25, concept="repeatable", needs=(*MODULE_NEEDS, "s2-module.heads", "s2-module.tails")
)
def flash_module_repeat(ctx: Context) -> None:
    """The default block_size; another length and batch; the first again."""
    a, b = draw_module(ctx.rng("a"), 2, 20, 2, 4), draw_module(ctx.rng("b"), 1, 33, 2, 4)
    handle = build(ctx, a)
    repeatable(ctx, lambda ctx, case: ctx.subject.forward(handle, case.x).value, [a, b])
