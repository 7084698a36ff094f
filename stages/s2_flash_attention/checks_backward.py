"""Checks of s2-backward. ``values`` and ``memory`` gate the rest; every other check is one regime on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking import gradients as back
from grader.checking.cases import Attention, Make, Shape, drawing, swapped
from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right, only, repeatable, unchanged
from grader.checking.gradients import NAMES, with_dout
from grader.checking.hardware import backward_like_kernel
from grader.checking.memory import Size, require_linear, require_no_matrix
from grader.subject import Outcome, Trace
from grader.vocabulary import Context, check

from . import forward_cases as cases
from .backward_mistakes import backward_suspects
from .checks_forward_masks import CAUSAL_KNOWN
from .forward_calls import Control, odd_ones, require_large, require_small, require_tiles, trace_of

FUNCTION = "flash_attention_backward"
VALUES, MEMORY, REPEAT = "s2-backward.values", "s2-backward.memory", "s2-backward.repeat"
ARGUMENTS = ("q", "k", "v", "dout", "attn_out", "softmax_lse")


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FUNCTION, *back.inputs(case), **case.options()).value


def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    """dk or dv with one head per query head: the sum over the group is missing."""
    (b, n1, _, d), s2, dv = case.q.shape, case.k.shape[2], case.v.shape[-1]
    if case.group == 1:
        return {}
    return {"dk": {(b, n1, s2, d): "gqa-gradient-not-summed"}, "dv": {(b, n1, s2, dv): "gqa-gradient-not-summed"}}


def upstream(make: Make) -> Make:
    return lambda rng, n: with_dout(rng, make(rng, n))


def backward(
    make: Make,
    otherwise: str | None = None,
    control: Control | None = None,
    catch: Sequence[Suspect] = (),
    known: Sequence[Make] = (cases.even,),
    **more: Any,
) -> Examination:
    return Examination(
        call=call,
        make=upstream(make),
        expect=back.expected,
        suspects=backward_suspects,
        otherwise=otherwise,
        control=control,
        catch=lambda: catch,
        known=[upstream(make) for make in known],
        shapes=shapes,
        **more,
    )


def is_right(ctx: Context, case: Attention) -> bool:
    if case.dout is None or case.dout.shape[:3] != case.q.shape[:3] or case.dout.shape[-1] != case.v.shape[-1]:
        case = with_dout(ctx.rng("control dout"), case)
    return all_right(call(ctx, case), back.expected(case))


def right_after(change: Callable[[Attention], Attention]) -> Control:
    """Control: the same inputs after ``change``, which takes away what the check is about."""
    return lambda ctx, case: is_right(ctx, change(case))


without_mask = right_after(lambda case: case.but(mask_mode=0))


@check(VALUES, points=0, concept="gradients")
def backward_values(ctx: Context) -> None:
    """No mask, whole tiles, N1 = N2, a random upstream gradient. Worth nothing without O(N) memory."""
    catch = only(
        backward_suspects(),
        "d-term-missing",
        "scale-missing-dq",
        "scale-missing-dk",
        "scale-in-dv",
        "gradient-overwritten",
    )
    backward(cases.even, catch=catch, known=()).run(ctx)


@check(MEMORY, points=3.5, concept="linear-memory", needs=(VALUES,))
def backward_memory(ctx: Context) -> None:
    """As in s2-forward; P and dP are a matrix each."""
    require_linear(ctx, run_long)


def run_long(ctx: Context, size: Size) -> Outcome:
    case = long_case(ctx, size)
    forward = forward_by_rows(case)
    arguments = (case.q, case.k, case.v, case.dout, *forward)
    outcome = ctx.subject.call(FUNCTION, *arguments, memory=True, observe=True, **case.options())
    require_gradients(ctx, case, require_tensors(ctx, outcome.value, NAMES), forward)
    return outcome


def long_case(ctx: Context, size: Size) -> Attention:
    case = cases.one_head(ctx.rng(size.length), size.length, size.block, dim=8)
    return with_dout(ctx.rng(f"dout {size.length}"), case)


def forward_by_rows(case: Attention) -> tuple[Tensor, Tensor]:
    """attn_out and softmax_lse in float32, some rows at a time."""
    outs, lses = [], []
    for q in (case.q * case.factor).split(384, dim=2):
        scores = q @ case.k.mT
        row_max = scores.amax(-1, keepdim=True)
        weights = scores.sub_(row_max).exp_()
        row_sum = weights.sum(-1, keepdim=True)
        outs.append(weights @ case.v / row_sum)
        lses.append((row_max + row_sum.log())[..., 0])
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def require_gradients(
    ctx: Context, case: Attention, got: tuple[Tensor, ...], forward: tuple[Tensor, Tensor] | None = None
) -> None:
    """dq of some rows of a long case without mask; with the outputs of ``forward`` also dk and dv of some keys.

    Four tolerances, since attn_out and softmax_lse carry the rounding of a float32 forward pass over many keys.
    """
    for name, tensor, like in zip(NAMES, got, (case.q, case.k, case.v), strict=True):
        require_like(ctx, tensor, Expected(name, like, 0.0, like.dtype), case=case.describe())
    places = torch.from_numpy(np.sort(ctx.rng("places").choice(case.q.shape[2], 16, replace=False)))
    wanted = [back.of_rows(case, places), *(back.of_keys(case, *forward, places) if forward else ())]
    for tensor, expected in zip(got, wanted, strict=False):
        some, expected = tensor[:, :, places], replace(expected, tol=4 * expected.tol)
        if not right(some, expected):
            ctx.fail(describe(some, expected), evidence=evidence_of(some, expected, case.describe()))


@check(REPEAT, points=0.5, concept="repeatable", needs=(VALUES, MEMORY))
def backward_repeat(ctx: Context) -> None:
    """Nothing is kept between calls. Comes early: a state would make every other finding doubtful."""

    def call_with_dout(ctx: Context, case: Attention) -> Any:
        return call(ctx, with_dout(ctx.rng("dout"), case))

    repeatable(ctx, call_with_dout, odd_ones(ctx, call_with_dout))


def needs(*others: str) -> tuple[str, ...]:
    return (VALUES, MEMORY, REPEAT, *(f"s2-backward.{name}" for name in others))


@check("s2-backward.scale", points=1, concept="scale", needs=needs())
def backward_scale(ctx: Context) -> None:
    make = drawing(Shape(1, 2, seq_q=32), Shape(1, 2, seq_q=32, dim=6), scales=(0.62, 0.21), block_q=16, block_kv=16)
    backward(make, "scale-ignored", right_after(lambda case: case.but(scale=None))).run(ctx)


@check("s2-backward.tails", points=2, concept="tail-tiles", needs=needs())
def backward_tails(ctx: Context) -> None:
    """Short tiles at the end, length 1, blocks larger than the sequence."""

    def ordinary(ctx: Context, case: Attention) -> bool:
        return is_right(ctx, cases.even(ctx.rng("control"), 0))

    backward(cases.tails, "tail-tiles", ordinary).run(ctx)
    for shape, block in ((Shape(1, 2, seq_q=1), 16), (Shape(1, 2, seq_q=9, dim=4), 128)):
        backward(drawing(shape, block_q=block, block_kv=block), "small-lengths", ordinary).run(ctx)


@check("s2-backward.rectangular", points=1.5, concept="shapes", needs=needs())
def backward_rectangular(ctx: Context) -> None:
    for make in (cases.rectangular, swapped(cases.rectangular)):
        backward(make, "lengths-assumed-equal", right_after(cases.square)).run(ctx)


@check("s2-backward.gqa", points=2.5, concept="gqa", needs=needs())
def backward_gqa(ctx: Context) -> None:
    """dk and dv of a kv head add up what its whole group of query heads gives."""
    catch = only(backward_suspects(), "gqa-gradient-not-summed", "gqa-gradient-mean", "gqa-interleaved")
    backward(cases.gqa, "gqa-mapping", right_after(cases.ungrouped), catch, known=()).run(ctx)


@check("s2-backward.causal", points=1.5, concept="causal", needs=needs())
def backward_causal(ctx: Context) -> None:
    catch = only(backward_suspects(), "causal-ignored", "causal-strict", "causal-local-index")
    backward(cases.causal, "causal-mask", without_mask, catch).run(ctx)
    backward(swapped(cases.causal), "causal-mask", without_mask).run(ctx)


@check("s2-backward.causal-offset", points=1, concept="causal-alignment", needs=needs("tails", "rectangular", "causal"))
def backward_causal_offset(ctx: Context) -> None:
    catch = only(backward_suspects(), "causal-top-left", "causal-offset-sign")
    backward(cases.causal_offset, "causal-alignment", without_mask, catch, CAUSAL_KNOWN).run(ctx)


@check(
    "s2-backward.empty-rows",
    points=1.5,
    concept="empty-rows",
    needs=needs("tails", "rectangular", "causal", "causal-offset"),
)
def backward_empty_rows(ctx: Context) -> None:
    """Rows that see no key (lse = +inf) give dq = 0 and add nothing to dk and dv."""
    backward(cases.empty_rows, "empty-row-gradients", without_mask, known=(*CAUSAL_KNOWN, cases.causal_offset)).run(ctx)


@check("s2-backward.window", points=1, concept="window", needs=needs("tails", "rectangular", "causal"))
def backward_window(ctx: Context) -> None:
    for sides in ((11, 4), (-1, 7), (13, -1)):
        backward(cases.window(*sides), "window-mask", without_mask).run(ctx)
    known = (cases.even, cases.window(11, 4))
    backward(cases.window_offset, "window-alignment", without_mask, known=known).run(ctx)


@check("s2-backward.half", points=1, concept="half-precision", needs=needs("rectangular"))
def backward_half(ctx: Context) -> None:
    """Gradients in the dtypes of q, k, v; sums in float32."""
    wrong = {torch.float32: "half-output-dtype", torch.float64: "half-output-dtype"}
    control = right_after(cases.in_float32)
    for dtype in (torch.float16, torch.bfloat16):
        make = drawing(Shape(1, 2, seq_q=32), dtype=dtype, block_q=16, block_kv=16)
        backward(make, "half-precision", control, dtypes=wrong).run(ctx)
    Examination(
        call=call,
        make=cases.cancelling_gradients,
        expect=back.expected,
        otherwise="half-accumulators",
        control=control,
    ).run(ctx)


@check("s2-backward.value-dim", points=0.5, concept="shapes", needs=needs())
def backward_value_dim(ctx: Context) -> None:
    wide, narrow = Shape(1, 2, seq_q=32, dim=8, value_dim=5), Shape(1, 2, seq_q=32, dim=5, value_dim=8)
    make = drawing(wide, narrow, block_q=16, block_kv=16)
    backward(make, "value-dim-assumed", right_after(lambda case: case.but(v=case.k))).run(ctx)


@check("s2-backward.inputs", points=0.5, concept="inputs", needs=needs())
def backward_inputs(ctx: Context) -> None:
    """Strided inputs are read right, and none of the six is changed."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 0))
    unchanged(ctx, ctx.subject.call(FUNCTION, *back.inputs(case), **case.options()).changed, ARGUMENTS)
    backward(cases.strided, "assumes-contiguous", right_after(cases.contiguous)).run(ctx)


@check("s2-backward.tile-size", points=1, concept="tile-size", needs=needs())
def backward_tile_size(ctx: Context) -> None:
    """6 x 4 tiles, observed, as in s2-forward: five products per tile (seven when dq has a pass of its own)."""
    case = with_dout(ctx.rng("dout"), cases.one_head(ctx.rng(), 192, 32, dim=4).but(block_kv=48))
    trace = observed(ctx, case)
    require_tiles(ctx, case, trace.flops, 1.55, "tiles-repeated", least=0.9, products=5)
    require_small(ctx, case, trace)
    require_large(ctx, case, trace)


@check("s2-backward.hidden-tiles", points=1, concept="hidden-tiles", needs=needs("tile-size", "causal"))
def backward_hidden_tiles(ctx: Context) -> None:
    """No products for tiles that the mask hides."""
    case = with_dout(ctx.rng("dout"), cases.one_head(ctx.rng(), 192, 32, dim=4, mask_mode=3))
    trace = observed(ctx, case)
    require_tiles(ctx, case, trace.flops, 1.55, "hidden-tiles-computed", products=5)
    require_no_matrix(ctx, trace, case.q.shape[2], case.k.shape[2])  # a mask as large as all scores shows here only


def observed(ctx: Context, case: Attention) -> Trace:
    return trace_of(ctx.subject.call(FUNCTION, *back.inputs(case), observe=True, **case.options()))


@check("s2-backward.hardware", points=0, concept="hardware", needs=needs("scale", "causal", "half"))
def backward_hardware(ctx: Context) -> None:
    """The same gradients as the kernel of this machine's NPU, in shapes that it takes: float16, and bfloat16 causal."""
    shapes = Shape(1, 2, seq_q=200, dim=64), Shape(1, 4, 2, seq_q=96, seq_kv=160, dim=128)
    plain = upstream(drawing(shapes[0], dtype=torch.float16, block_q=64, block_kv=64))
    causal = upstream(drawing(shapes[1], dtype=torch.bfloat16, block_q=64, block_kv=64, mask_mode=3))
    backward_like_kernel(ctx, [make(ctx.rng(i), 0) for i, make in enumerate((plain, causal))], call)
