"""Checks of s2-forward: the gate (values, memory, repeat), lengths, heads, scale, stability, tiles.

``values`` and ``memory`` gate all others: an N x N matrix, or rows against all keys, earn nothing. Every other check is
one regime on its own.
"""

from __future__ import annotations

from grader.checking.attention_ideas import HEADS, SCALE
from grader.checking.cases import Attention, Make, Shape, drawing, swapped
from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.examine import only, repeatable
from grader.checking.memory import Size, require_linear
from grader.checking.wrong_attention import suspects
from grader.subject import Outcome
from grader.vocabulary import Context, check

from . import forward_cases as cases
from .forward_calls import (
    FUNCTION,
    NAMES,
    call,
    forward,
    odd_ones,
    require_large,
    require_small,
    require_tiles,
    right_after,
    right_on,
    trace_of,
)  # fmt: skip
from .mistakes import ONLINE, TAILS

VALUES, MEMORY, REPEAT = "s2-forward.values", "s2-forward.memory", "s2-forward.repeat"


@check(VALUES, points=0, concept="online-rescaling")
def forward_values(ctx: Context) -> None:
    """No mask, whole tiles, several heads: the online softmax itself, scale and axis. Worth nothing without memory."""
    catch = only(suspects([*SCALE, *ONLINE]), "scale-missing", "acc-not-rescaled", "sum-not-rescaled", "last-tile-only")
    forward(cases.even, catch=catch, known=()).run(ctx)
    forward(swapped(cases.even), known=()).run(ctx)
    equal_blocks = right_after(lambda case: case.but(block_q=12, block_kv=12))
    forward(cases.unequal, "blocks-assumed-equal", equal_blocks).run(ctx)


@check(MEMORY, points=5, concept="linear-memory", needs=(VALUES,))
def forward_memory(ctx: Context) -> None:
    """Memory seen from outside at a length where all scores take many MB."""
    require_linear(ctx, run_long)


def run_long(ctx: Context, size: Size) -> Outcome:
    """A long sequence; some rows are checked, so that it is this that ran."""
    case = cases.one_head(ctx.rng(size.length), size.length, size.block, dim=16)
    outcome = ctx.subject.call(FUNCTION, case.q, case.k, case.v, memory=True, observe=True, **case.options())
    out, _ = require_tensors(ctx, outcome.value, NAMES)
    require_like(ctx, out, Expected("attn_out", case.q, 0.0, case.q.dtype), case=case.describe())
    some, rows = cases.sample_rows(case, ctx.rng("rows"))
    if not right(out[:, :, rows], some.expected):
        evidence = evidence_of(out[:, :, rows], some.expected, case.describe())
        ctx.fail(describe(out[:, :, rows], some.expected), evidence=evidence)
    return outcome


@check(REPEAT, points=0.5, concept="repeatable", needs=(VALUES, MEMORY))
def forward_repeat(ctx: Context) -> None:
    """Nothing is kept between calls. Comes early: a state would make every other finding doubtful."""
    repeatable(ctx, call, odd_ones(ctx, call))


def needs(*others: str) -> tuple[str, ...]:
    return (VALUES, MEMORY, REPEAT, *(f"s2-forward.{name}" for name in others))


@check("s2-forward.tails", points=2, concept="tail-tiles", needs=needs())
def forward_tails(ctx: Context) -> None:
    """Lengths that are no multiples of the blocks."""
    catch = only(suspects(TAILS), "tail-dropped", "tail-padded", "tail-counted-twice")
    for make in (cases.tails, swapped(cases.tails)):
        forward(make, "tail-tiles", right_after(cases.whole), catch).run(ctx)


@check("s2-forward.rectangular", points=1.5, concept="shapes", needs=needs())
def forward_rectangular(ctx: Context) -> None:
    """S1 < S2 and S1 > S2."""
    for make in (cases.rectangular, swapped(cases.rectangular)):
        forward(make, "lengths-assumed-equal", right_after(cases.square)).run(ctx)


@check("s2-forward.small", points=1, concept="tail-tiles", needs=needs("tails", "rectangular"))
def forward_small(ctx: Context) -> None:
    """Length 1, and blocks larger than the sequences."""
    for shape, block in (
        (Shape(1, 2, seq_q=1, dim=8), 16),
        (Shape(2, 2, seq_q=1, seq_kv=33, dim=4), 16),
        (Shape(1, 2, seq_q=9, seq_kv=7, dim=8), 128),
        (Shape(1, 1, seq_q=20, seq_kv=1, dim=6), 8),
    ):
        make = drawing(shape, block_q=block, block_kv=block)
        forward(make, "small-lengths", right_on(cases.even)).run(ctx)


@check("s2-forward.value-dim", points=0.5, concept="shapes", needs=needs())
def forward_value_dim(ctx: Context) -> None:
    """D != Dv."""
    wide, narrow = Shape(1, 2, seq_q=32, dim=8, value_dim=5), Shape(1, 2, seq_q=32, dim=5, value_dim=8)
    control = right_after(lambda case: case.but(v=case.k))
    for pair in ((wide, narrow), (narrow, wide)):
        forward(drawing(*pair, block_q=16, block_kv=16), "value-dim-assumed", control).run(ctx)


@check("s2-forward.scale", points=0.5, concept="scale", needs=needs())
def forward_scale(ctx: Context) -> None:
    """A given scale replaces 1/sqrt(D)."""
    make = drawing(Shape(1, 2, seq_q=32), Shape(1, 2, seq_q=32, dim=6), scales=(0.62, 0.21), block_q=16, block_kv=16)
    catch = only(suspects(SCALE), "scale-ignored", "scale-combined")
    forward(make, "scale-ignored", right_after(lambda case: case.but(scale=None)), catch).run(ctx)


@check("s2-forward.gqa", points=2, concept="gqa", needs=needs())
def forward_gqa(ctx: Context) -> None:
    """Query head h reads kv head h // (N1 // N2)."""
    catch = only(suspects(HEADS), "gqa-interleaved", "gqa-one-head")
    forward(cases.gqa, "gqa-mapping", right_after(cases.ungrouped), catch, known=()).run(ctx)


def moderate(case: Attention) -> Attention:
    """Logits 50 times smaller."""
    return case.but(q=case.q / 50)


@check("s2-forward.large-logits", points=1.5, concept="stability", needs=needs())
def forward_large_logits(ctx: Context) -> None:
    """Logits near +300, logits that rise by more than 100 from tile to tile, single keys 200 above the others."""
    before: list[Make] = [cases.even]
    for make in (cases.high, cases.rising, cases.spiky):
        forward(make, "unstable-softmax", right_after(moderate), known=tuple(before)).run(ctx)
        before.append(make)


@check("s2-forward.negative-logits", points=1.5, concept="stability", needs=needs("large-logits"))
def forward_negative_logits(ctx: Context) -> None:
    """Rows of very different levels side by side; then every logit near -300."""
    known = (cases.even, cases.high, cases.rising, cases.spiky)
    for make in (cases.mixed, cases.low):
        forward(make, "unstable-softmax", right_after(moderate), known=known).run(ctx)


@check("s2-forward.tile-size", points=1.5, concept="tile-size", needs=needs())
def forward_tile_size(ctx: Context) -> None:
    """6 x 4 tiles, observed: products of whole tiles, no intermediate larger than one, every tile multiplied once."""
    case = cases.one_head(ctx.rng(), 192, 32, dim=4).but(block_kv=48)
    trace = trace_of(observed(ctx, case))
    require_tiles(ctx, case, trace.flops, 1.3, "tiles-repeated", least=0.9)
    require_small(ctx, case, trace)
    require_large(ctx, case, trace)


def observed(ctx: Context, case: Attention) -> Outcome:
    return ctx.subject.call(FUNCTION, case.q, case.k, case.v, observe=True, **case.options())
