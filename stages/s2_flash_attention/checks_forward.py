"""Checks of s2-forward. ``values`` and ``memory`` gate the rest: every other check is one regime on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from grader.cases import Attention, Shape, draw
from grader.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.diagnose import Suspect
from grader.examine import Examination, all_right, only, repeatable, unchanged
from grader.memory import require_linear
from grader.vocabulary import Context, check, say
from grader.wrong_attention import suspects

from . import forward_cases as cases
from .mistakes import CAUSAL, EMPTY_ROWS, HEADS, ONLINE, SCALE, TAILS, WINDOW, forward_suspects, lse_suspects

FUNCTION = "flash_attention_forward"
NAMES = ("attn_out", "softmax_lse")
VALUES, MEMORY, REPEAT = "s2-forward.values", "s2-forward.memory", "s2-forward.repeat"

Control = Callable[[Context, Attention], bool]


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FUNCTION, case.q, case.k, case.v, **case.options()).value


def expect_out(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected}


def expect_lse(case: Attention) -> dict[str, Expected]:
    return {"softmax_lse": case.expected_lse}


def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    """Shapes of attn_out that give an idea away."""
    b, n, s1, _ = case.q.shape
    dim, full = case.v.shape[-1], s1 // max(case.block_q, 1) * case.block_q
    given = {(b, s1, n, dim): "layout-transposed"}
    if full != s1:
        given[(b, n, full, dim)] = "tail-dropped"
        given[(b, n, full + case.block_q, dim)] = "tail-padded"
    return {"attn_out": given}


def forward(make: Any, otherwise: str | None = None, control: Control | None = None, catch: Sequence[Suspect] = (),
            known: Sequence[Any] = (cases.even,), **more: Any) -> Examination:  # fmt: skip
    """A regime of its own, after ``values``, which is therefore ``known`` to be right."""
    return Examination(
        call=call, make=make, expect=expect_out, suspects=forward_suspects, otherwise=otherwise, control=control,
        catch=lambda: catch, known=known, shapes=shapes, names=NAMES, **more,
    )  # fmt: skip


def is_right(ctx: Context, case: Attention) -> bool:
    return all_right(call(ctx, case), expect_out(case), NAMES)


def without_mask(ctx: Context, case: Attention) -> bool:
    """Control: the same inputs without their mask."""
    return is_right(ctx, case.but(mask_mode=0))


@check(VALUES, points=0, concept="online-rescaling")
def forward_values(ctx: Context) -> None:
    """No mask, whole tiles, several heads: the online softmax itself, scale and axis."""
    forward(
        cases.even, known=(),
        catch=only(suspects([*SCALE, *ONLINE]), "scale-missing", "acc-not-rescaled", "sum-not-rescaled", "last-tile-only"),
    ).run(ctx)  # fmt: skip
    forward(lambda rng, n: cases.even(rng, 1 - n), known=()).run(ctx)


@check(MEMORY, points=7, concept="linear-memory", needs=(VALUES,))
def forward_memory(ctx: Context) -> None:
    """N = 4096: memory seen from outside, and the right values of some rows, so that what ran is what was measured."""
    case = cases.one_head(ctx.rng(), 4096, 512, dim=16)
    outcome = ctx.subject.call(FUNCTION, case.q, case.k, case.v, memory=True, **case.options())
    out, _ = require_tensors(ctx, outcome.value, NAMES)
    some, rows = cases.sample_rows(case, ctx.rng("rows"))
    expected = some.expected
    if tuple(out.shape) != tuple(case.q.shape):
        require_like(ctx, out, Expected("attn_out", case.q, 0.0, case.q.dtype), case=case.describe())
    require_like(ctx, out[:, :, rows], expected, case=case.describe())
    if not right(out[:, :, rows], expected):
        ctx.fail(describe(out[:, :, rows], expected), evidence=evidence_of(out[:, :, rows], expected, case.describe()))
    require_linear(ctx, outcome, 4096, limit=16_000_000)  # tiles of 1 MB; one N x N matrix is 67 MB


@check(REPEAT, points=0.5, concept="repeatable", needs=(VALUES, MEMORY))
def forward_repeat(ctx: Context) -> None:
    """Nothing is kept between calls. Comes early: a state would make every other finding doubtful."""
    repeatable(ctx, call, [cases.odd_one(ctx.rng(n), n) for n in (1, 0, 2)])
    repeatable(ctx, call, [cases.odd_one(ctx.rng(n), n) for n in (0, 2, 1)])


def needs(*others: str) -> tuple[str, ...]:
    return (VALUES, MEMORY, REPEAT, *(f"s2-forward.{name}" for name in others))


@check("s2-forward.tails", points=2, concept="tail-tiles", needs=needs())
def forward_tails(ctx: Context) -> None:
    control: Control = lambda ctx, case: is_right(ctx, cases.whole(case))
    catch = only(suspects(TAILS), "tail-dropped", "tail-padded", "tail-counted-twice")
    for first in (0, 1):
        forward(lambda rng, n, first=first: cases.tails(rng, n ^ first), "tail-tiles", control, catch).run(ctx)


@check("s2-forward.rectangular", points=1.5, concept="shapes", needs=needs())
def forward_rectangular(ctx: Context) -> None:
    """S1 < S2 and S1 > S2."""
    control: Control = lambda ctx, case: is_right(ctx, cases.square(case))
    for first in (0, 1):
        forward(lambda rng, n, first=first: cases.rectangular(rng, n ^ first), "lengths-assumed-equal", control).run(ctx)


@check("s2-forward.small", points=1, concept="tail-tiles", needs=needs("tails", "rectangular"))
def forward_small(ctx: Context) -> None:
    """Length 1, and blocks larger than the sequences."""
    control: Control = lambda ctx, case: is_right(ctx, cases.even(ctx.rng("control"), 0))
    for shape, block in ((Shape(1, 2, seq_q=1, dim=8), 16), (Shape(2, 2, seq_q=1, seq_kv=33, dim=4), 16),
                         (Shape(1, 2, seq_q=9, seq_kv=7, dim=8), 128), (Shape(1, 1, seq_q=20, seq_kv=1, dim=6), 8)):  # fmt: skip
        make = lambda rng, n, shape=shape, block=block: draw(rng, shape, block_q=block, block_kv=block)
        forward(make, "small-lengths", control).run(ctx)


@check("s2-forward.lse", points=1, concept="lse", needs=needs())
def forward_lse(ctx: Context) -> None:
    """softmax_lse: its shape, float32 also for half precision inputs, and the natural logarithm of the row's sum."""
    def lse_shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
        b, n, s1, _ = case.q.shape
        return {"softmax_lse": {(b, n, s1, 1): "lse-shape", (b, s1, n): "lse-shape"}}

    def examination(make: Any, otherwise: str, control: Control) -> Examination:
        return Examination(
            call=call, make=make, expect=expect_lse, names=NAMES, suspects=lse_suspects,
            otherwise=otherwise, control=control, shapes=lse_shapes,
            dtypes={torch.float16: "lse-dtype", torch.bfloat16: "lse-dtype", torch.float64: "lse-dtype"},
        )  # fmt: skip

    def in_float32(ctx: Context, case: Attention) -> bool:
        same = case.but(q=case.q.float(), k=case.k.float(), v=case.v.float())
        return all_right(call(ctx, same)[1], expect_lse(same))

    examination(cases.even, "lse-value", is_right).run(ctx)
    half = lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=8), dtype=torch.float16, block_q=16, block_kv=16)
    examination(half, "half-precision", in_float32).run(ctx)


def moderate(ctx: Context, case: Attention) -> bool:
    """Control: the same inputs with logits 50 times smaller."""
    return is_right(ctx, case.but(q=case.q / 50))


def high(rng: np.random.Generator, n: int) -> Attention:
    return cases.large(rng, n, 1.0)


@check("s2-forward.large-logits", points=1.5, concept="stability", needs=needs())
def forward_large_logits(ctx: Context) -> None:
    """Logits near +300, and logits that rise by more than 100 from tile to tile."""
    forward(high, "unstable-softmax", moderate).run(ctx)
    forward(cases.rising, "unstable-softmax", moderate).run(ctx)


@check("s2-forward.negative-logits", points=1.5, concept="stability", needs=needs("large-logits"))
def forward_negative_logits(ctx: Context) -> None:
    """Rows of very different levels side by side; then every logit near -300."""
    known = (cases.even, high, cases.rising)
    forward(cases.mixed, "unstable-softmax", moderate, known=known).run(ctx)
    forward(lambda rng, n: cases.large(rng, n, -1.0), "unstable-softmax", moderate, known=known).run(ctx)


@check("s2-forward.gqa", points=2, concept="gqa", needs=needs())
def forward_gqa(ctx: Context) -> None:
    control: Control = lambda ctx, case: is_right(ctx, cases.ungrouped(case))
    forward(cases.gqa, "gqa-mapping", control, only(suspects(HEADS), "gqa-interleaved", "gqa-one-head"), known=()).run(ctx)


@check("s2-forward.causal", points=2, concept="causal", needs=needs())
def forward_causal(ctx: Context) -> None:
    catch = only(suspects(CAUSAL), "causal-ignored", "causal-strict", "causal-one-ahead", "causal-local-index")
    for first in (0, 1):
        forward(lambda rng, n, first=first: cases.causal(rng, n ^ first), "causal-mask", without_mask, catch).run(ctx)


STABLE = ("large-logits", "negative-logits")
CAUSAL_KNOWN = (cases.even, cases.causal, lambda rng, n: cases.causal(rng, 1), cases.rectangular)


@check("s2-forward.causal-offset", points=1.5, concept="causal-alignment", needs=needs("tails", "rectangular", *STABLE, "causal"))
def forward_causal_offset(ctx: Context) -> None:
    """S1 < S2: bottom-right alignment."""
    catch = only(suspects(CAUSAL), "causal-top-left", "causal-offset-sign")
    forward(cases.causal_offset, "causal-alignment", without_mask, catch, CAUSAL_KNOWN).run(ctx)


@check("s2-forward.empty-rows", points=1.5, concept="empty-rows", needs=needs("tails", "rectangular", "lse", *STABLE, "causal", "causal-offset"))
def forward_empty_rows(ctx: Context) -> None:
    """S1 > S2, causal: a row that sees no key gives attn_out 0 and softmax_lse +inf."""

    def seen_rows_right(ctx: Context, case: Attention) -> bool:
        start = case.q.shape[2] - case.k.shape[2]
        expected = Expected("attn_out", case.truth[0][:, :, start:], case.expected.tol, case.q.dtype)
        return right(call(ctx, case)[0][:, :, start:], expected)

    catch = only(suspects(EMPTY_ROWS), "empty-row-nan", "empty-row-average")
    forward(cases.empty_rows, "empty-row", seen_rows_right, catch, (*CAUSAL_KNOWN, cases.causal_offset)).run(ctx)
    Examination(
        call=call, make=cases.empty_rows, expect=expect_lse, names=NAMES,
        otherwise="empty-row-lse", control=lambda ctx, case: is_right(ctx, case),
    ).run(ctx)  # fmt: skip


@check("s2-forward.window", points=2, concept="window", needs=needs("tails", "rectangular", *STABLE, "causal"))
def forward_window(ctx: Context) -> None:
    """Mode 4: two sides, one side open, no side, aligned bottom-right when S1 != S2."""
    catch = only(suspects(WINDOW), "window-ignored", "window-end-exclusive", "window-swapped")
    forward(cases.window, "window-mask", without_mask, catch).run(ctx)
    for sides in cases.WINDOWS[1:]:
        other = (5, 12) if sides[0] >= 0 <= sides[1] else tuple(max(-1, side - 2) for side in sides)
        make = lambda rng, n, pair=(sides, other): cases.window(rng, n, pair[n])
        forward(make, "window-mask", without_mask).run(ctx)
    known = (cases.even, cases.window, lambda rng, n: cases.window(rng, 1, cases.WINDOWS[3]))
    forward(cases.window_offset, "window-alignment", without_mask, known=known).run(ctx)


@check("s2-forward.value-dim", points=0.5, concept="shapes", needs=needs())
def forward_value_dim(ctx: Context) -> None:
    """D != Dv."""
    control: Control = lambda ctx, case: is_right(ctx, case.but(v=case.k))
    for dims in ((8, 5), (6, 10)):
        make = lambda rng, n, dims=dims: draw(rng, Shape(1, 2, seq_q=32, dim=dims[n], value_dim=dims[1 - n]), block_q=16, block_kv=16)
        forward(make, "value-dim-assumed", control).run(ctx)


@check("s2-forward.scale", points=0.5, concept="scale", needs=needs())
def forward_scale(ctx: Context) -> None:
    """A given scale replaces 1/sqrt(D)."""
    make = lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=8 - 2 * n), scale=(0.62, 0.21)[n], block_q=16, block_kv=16)
    catch = only(suspects(SCALE), "scale-ignored", "scale-combined")
    forward(make, "scale-ignored", lambda ctx, case: is_right(ctx, case.but(scale=None)), catch).run(ctx)


HALF_OUTPUT = {torch.float32: "half-output-dtype", torch.float64: "half-output-dtype"}


def in_float32(ctx: Context, case: Attention) -> bool:
    """Control: the same values in float32."""
    return is_right(ctx, case.but(q=case.q.float(), k=case.k.float(), v=case.v.float()))


@check("s2-forward.half", points=1, concept="half-precision", needs=needs("scale"))
def forward_half(ctx: Context) -> None:
    """float16 and bfloat16 in, the same out; products whose raw scores float16 cannot hold."""
    for dtype in (torch.float16, torch.bfloat16):
        make = lambda rng, n, dtype=dtype: draw(rng, Shape(1, 2, seq_q=32, dim=8), dtype=dtype, block_q=16, block_kv=16)
        forward(make, "half-precision", in_float32, dtypes=HALF_OUTPUT).run(ctx)
    forward(cases.half_range, "half-scores", in_float32, dtypes=HALF_OUTPUT).run(ctx)


@check("s2-forward.half-many-tiles", points=0.5, concept="half-precision", needs=needs("rectangular", "half"))
def forward_half_many_tiles(ctx: Context) -> None:
    """row_sum and acc must be float32, whatever the inputs are."""
    forward(cases.overflowing_sums, "half-accumulators", in_float32).run(ctx)
    forward(cases.many_tiles, "half-accumulators", in_float32).run(ctx)


@check("s2-forward.float64", points=0.5, concept="precision", needs=needs())
def forward_float64(ctx: Context) -> None:
    """float64 in, float64 accuracy out."""
    make = lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=8), dtype=torch.float64, block_q=16, block_kv=16)
    forward(make, "float64-lost", in_float32, dtypes={torch.float32: "float64-lost"}).run(ctx)


@check("s2-forward.strided", points=0.5, concept="inputs", needs=needs())
def forward_strided(ctx: Context) -> None:
    """Inputs stored as [B, S, N, D], and views into larger tensors."""
    control: Control = lambda ctx, case: is_right(ctx, cases.contiguous(case))
    for view in (cases.strided, cases.packed):
        forward(lambda rng, n, view=view: view(cases.even(rng, n)), "assumes-contiguous", control).run(ctx)


@check("s2-forward.inputs-unchanged", points=0.5, concept="inputs", needs=needs())
def forward_inputs_unchanged(ctx: Context) -> None:
    """q, k, v are the caller's, in float32 (where a cast is no copy) and when all three are one tensor."""
    case = cases.even(ctx.rng(), 0)
    unchanged(ctx, ctx.subject.call(FUNCTION, case.q, case.k, case.v, **case.options()).changed, "qkv")
    separate: Control = lambda ctx, case: is_right(ctx, case.but(q=case.q.clone(), k=case.k.clone(), v=case.v.clone()))
    forward(lambda rng, n: cases.shared(cases.even(rng, n)), "input-modified", separate).run(ctx)


@check("s2-forward.tile-size", points=0.5, concept="tile-size", needs=needs())
def forward_tile_size(ctx: Context) -> None:
    """8 x 8 tiles, observed: nothing larger than a tile, and all tiles multiplied once."""
    case = cases.one_head(ctx.rng(), 256, 32, dim=4)
    trace = observed(ctx, case)
    require_tiles(ctx, case, trace.flops, 0.9, 1.3, "tiles-unseen", "tiles-repeated")
    limit = 1.5 * max(case.block_q * case.block_kv, 256 * 4)
    if trace.largest > limit:
        ctx.fail(
            say("block_q=32、block_kv=32 时出现了 {shape} 的中间张量（{op}）：比一块 [32, 32] 大。",
                "With block_q=32 and block_kv=32 an intermediate of shape {shape} appeared ({op}), larger than a tile [32, 32].",
                shape=list(trace.largest_shape), op=trace.largest_op),
            misconception="block-size-ignored",
            evidence={"max_error": trace.largest, "tolerance": limit, "shape": list(trace.largest_shape), "case": str(case.describe())},
        )


def observed(ctx: Context, case: Attention) -> Any:
    outcome = ctx.subject.call(FUNCTION, case.q, case.k, case.v, observe=True, **case.options())
    if outcome.trace is None:
        raise RuntimeError("the subject observed nothing")
    return outcome.trace


def require_tiles(ctx: Context, case: Attention, flops: int, least: float, most: float, few: str, many: str,
                  products: int = 2) -> None:  # fmt: skip
    """The products that ran against the ``products`` that every visible tile needs (D = Dv)."""
    wanted = visible_flops(case) * products // 2
    if least * wanted <= flops <= most * wanted:
        return
    evidence = {"expected": wanted, "got": flops, "case": str(case.describe())}
    if flops < wanted:
        ctx.fail(
            say("看到的矩阵乘法是 {got:,} 次浮点运算，可见的块需要 {want:,} 次：没有看到逐块的矩阵乘法。",
                "The products observed are {got:,} flops, the visible tiles need {want:,}: no tile-by-tile products were seen.",
                got=flops, want=wanted),
            misconception=few, evidence=evidence,
        )
    ctx.fail(
        say("矩阵乘法用了 {got:,} 次浮点运算，可见的块只需要 {want:,} 次。",
            "The products took {got:,} flops, the visible tiles need only {want:,}.", got=flops, want=wanted),
        misconception=many, evidence=evidence,
    )


def visible_flops(case: Attention) -> int:
    """Two products per tile that holds a visible pair."""
    mask, total = case.visible, 0
    per_pair = 2 * (case.q.shape[-1] + case.v.shape[-1])
    for i in range(0, mask.shape[0], case.block_q):
        for j in range(0, mask.shape[1], case.block_kv):
            tile = mask[i : i + case.block_q, j : j + case.block_kv]
            total += per_pair * tile.numel() if bool(tile.any()) else 0
    return total


@check("s2-forward.hidden-tiles", points=0.5, concept="hidden-tiles", needs=needs("tile-size", "causal", "window"))
def forward_hidden_tiles(ctx: Context) -> None:
    """Tiles that the mask hides cost nothing, causal and with a window."""
    for fields in ({"mask_mode": 3}, {"mask_mode": 4, "win_left": 40, "win_right": 3}):
        case = cases.one_head(ctx.rng(str(fields["mask_mode"])), 256, 32, dim=4, **fields)
        require_tiles(ctx, case, observed(ctx, case).flops, 0.5, 1.3, "tiles-unseen", "hidden-tiles-computed")
