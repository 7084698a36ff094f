"""Checks of s2-forward: softmax_lse, masks, precision, and how inputs are stored."""

from __future__ import annotations

import torch

from grader.checking.attention_ideas import CAUSAL, EMPTY_ROWS
from grader.checking.cases import Attention, Make, Shape, drawing, swapped
from grader.checking.compare import Expected, right
from grader.checking.examine import Examination, all_right, only, unchanged
from grader.checking.hardware import forward_like_kernel
from grader.checking.memory import require_no_matrix
from grader.checking.wrong_attention import suspects
from grader.vocabulary import Context, check

from . import forward_cases as cases
from .checks_forward import needs, observed
from .forward_calls import (
    FUNCTION,
    NAMES,
    Control,
    call,
    expect_lse,
    forward,
    is_right,
    require_tiles,
    right_after,
    trace_of,
    without_mask,
)  # fmt: skip
from .lse_mistakes import lse_suspects
from .mask_mistakes import WINDOW

LSE_DTYPES = {dtype: "lse-dtype" for dtype in (torch.float16, torch.bfloat16, torch.float64)}


def half(dtype: torch.dtype) -> Make:
    return drawing(Shape(1, 2, seq_q=32), dtype=dtype, block_q=16, block_kv=16)


@check("s2-forward.lse", points=1, concept="lse", needs=needs())
def forward_lse(ctx: Context) -> None:
    """softmax_lse: shape, float32 for any input, the natural logarithm of the row's sum."""

    def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
        b, n, s1, _ = case.q.shape
        return {"softmax_lse": {(b, n, s1, 1): "lse-shape", (b, s1, n): "lse-shape"}}

    def examination(make: Make, otherwise: str, control: Control) -> Examination:
        return Examination(
            call=call,
            make=make,
            expect=expect_lse,
            names=NAMES,
            suspects=lse_suspects,
            otherwise=otherwise,
            control=control,
            shapes=shapes,
            dtypes=LSE_DTYPES,
        )

    def right_in_float32(ctx: Context, case: Attention) -> bool:
        return all_right(call(ctx, cases.in_float32(case))[1], expect_lse(cases.in_float32(case)))

    examination(cases.even, "lse-value", is_right).run(ctx)
    examination(half(torch.float16), "half-precision", right_in_float32).run(ctx)


STABLE = ("large-logits", "negative-logits")


@check("s2-forward.causal", points=2, concept="causal", needs=needs(*STABLE))
def forward_causal(ctx: Context) -> None:
    """S1 = S2, tiles square and not."""
    catch = only(suspects(CAUSAL), "causal-ignored", "causal-strict", "causal-one-ahead", "causal-local-index")
    for make in (cases.causal, swapped(cases.causal)):
        forward(make, "causal-mask", without_mask, catch).run(ctx)


CAUSAL_KNOWN = (cases.even, cases.causal, swapped(cases.causal), cases.rectangular)
CAUSAL_NEEDS = needs("tails", "rectangular", *STABLE, "causal")


@check("s2-forward.causal-offset", points=1.5, concept="causal-alignment", needs=CAUSAL_NEEDS)
def forward_causal_offset(ctx: Context) -> None:
    """S1 < S2: bottom-right alignment."""
    catch = only(suspects(CAUSAL), "causal-top-left", "causal-offset-sign")
    forward(cases.causal_offset, "causal-alignment", without_mask, catch, CAUSAL_KNOWN).run(ctx)


@check(
    "s2-forward.empty-rows",
    points=1.5,
    concept="empty-rows",
    needs=(*CAUSAL_NEEDS, "s2-forward.lse", "s2-forward.causal-offset"),
)
def forward_empty_rows(ctx: Context) -> None:
    """S1 > S2, causal: a row that sees no key gives attn_out 0 and softmax_lse +inf."""

    def others_right(ctx: Context, case: Attention) -> bool:
        start = case.q.shape[2] - case.k.shape[2]
        expected = Expected("attn_out", case.truth[0][:, :, start:], case.expected.tol, case.q.dtype)
        return right(call(ctx, case)[0][:, :, start:], expected)

    catch = only(suspects(EMPTY_ROWS), "empty-row-nan", "empty-row-average")
    known = (*CAUSAL_KNOWN, cases.causal_offset)
    forward(cases.empty_rows, "empty-row", others_right, catch, known).run(ctx)
    Examination(
        call=call,
        make=cases.empty_rows,
        expect=expect_lse,
        names=NAMES,
        otherwise="empty-row-lse",
        control=is_right,
    ).run(ctx)


@check("s2-forward.window", points=2, concept="window", needs=CAUSAL_NEEDS)
def forward_window(ctx: Context) -> None:
    """Mode 4: two sides, one side open, no side, and aligned bottom-right when S1 != S2."""
    catch = only(suspects(WINDOW), "window-ignored", "window-end-exclusive", "window-swapped")
    forward(cases.window(*cases.WINDOWS[0]), "window-mask", without_mask, catch).run(ctx)
    for sides in cases.WINDOWS[1:]:
        forward(cases.window(*sides), "window-mask", without_mask).run(ctx)
    known = (cases.even, cases.window(*cases.WINDOWS[0]), cases.window(*cases.WINDOWS[2]))
    forward(cases.window_offset, "window-alignment", without_mask, known=known).run(ctx)


@check(
    "s2-forward.hidden-tiles",
    points=1.5,
    concept="hidden-tiles",
    needs=needs("tile-size", "causal", "window"),
)
def forward_hidden_tiles(ctx: Context) -> None:
    """Tiles that the mask hides cost nothing, causal and with a window."""
    for fields in ({"mask_mode": 3}, {"mask_mode": 4, "win_left": 40, "win_right": 3}):
        case = cases.one_head(ctx.rng(str(fields["mask_mode"])), 192, 32, dim=4, **fields)
        trace = trace_of(observed(ctx, case))
        require_tiles(ctx, case, trace.flops, 1.3, "hidden-tiles-computed")
        require_no_matrix(ctx, trace, case.q.shape[2], case.k.shape[2])  # a mask as large as all scores shows here only


@check("s2-forward.half", points=1, concept="half-precision", needs=needs("scale"))
def forward_half(ctx: Context) -> None:
    """float16 and bfloat16 in, the same out; products whose raw scores float16 cannot hold."""
    wrong = {torch.float32: "half-output-dtype", torch.float64: "half-output-dtype"}
    for dtype in (torch.float16, torch.bfloat16):
        forward(half(dtype), "half-precision", right_after(cases.in_float32), dtypes=wrong).run(ctx)
    forward(cases.half_range, "half-scores", right_after(cases.in_float32), dtypes=wrong).run(ctx)


@check("s2-forward.half-many-tiles", points=0.5, concept="half-precision", needs=needs("tails", "rectangular", "half"))
def forward_half_many_tiles(ctx: Context) -> None:
    """row_sum and acc must be float32, whatever the inputs are."""
    for make in (cases.overflowing_sums, cases.many_tiles):
        forward(make, "half-accumulators", right_after(cases.in_float32)).run(ctx)


@check("s2-forward.float64", points=0.5, concept="precision", needs=needs())
def forward_float64(ctx: Context) -> None:
    """float64 in, float64 accuracy out."""
    dtypes = {torch.float32: "float64-lost"}
    forward(half(torch.float64), "float64-lost", right_after(cases.in_float32), dtypes=dtypes).run(ctx)


@check("s2-forward.strided", points=0.5, concept="inputs", needs=needs())
def forward_strided(ctx: Context) -> None:
    """Inputs stored as [B, S, N, D], and views into larger tensors."""
    for make in (cases.strided, cases.packed):
        forward(make, "assumes-contiguous", right_after(cases.contiguous)).run(ctx)


@check("s2-forward.inputs-unchanged", points=0.5, concept="inputs", needs=needs())
def forward_inputs_unchanged(ctx: Context) -> None:
    """q, k, v are the caller's, in float32 (where a cast is no copy) and when all three are one tensor."""
    case = cases.even(ctx.rng(), 0)
    unchanged(ctx, ctx.subject.call(FUNCTION, case.q, case.k, case.v, **case.options()).changed, "qkv")
    forward(cases.shared, "input-modified", right_after(cases.separate)).run(ctx)


@check("s2-forward.hardware", points=0, concept="hardware", needs=needs("scale", "causal", "half"))
def forward_hardware(ctx: Context) -> None:
    """The same numbers as the kernel of this machine's NPU, in shapes that it takes: float16, and bfloat16 causal."""
    shapes = Shape(1, 2, seq_q=200, dim=64), Shape(1, 4, 2, seq_q=96, seq_kv=160, dim=128)
    plain = drawing(shapes[0], dtype=torch.float16, block_q=64, block_kv=64)
    causal = drawing(shapes[1], dtype=torch.bfloat16, block_q=64, block_kv=64, mask_mode=3)
    forward_like_kernel(ctx, [make(ctx.rng(i), 0) for i, make in enumerate((plain, causal))], call)
