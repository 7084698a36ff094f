"""Checks of s4-fast: right values, then how many times faster than the start that the notebook gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from grader.checking import speed
from grader.checking.attention_ideas import HEADS, SCALE, SOFTMAX
from grader.checking.cases import Attention, Shape, draw, drawing
from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, unchanged
from grader.checking.wrong_attention import suspects
from grader.subject import Outcome
from grader.vocabulary import Context, check, say

FAST, SLOW, VALUES = "fast_attention", "slow_attention", "s4-fast.values"
WANTED = 1.5  # times the start's speed
START = Path(__file__).with_name("slow_attention.py")
SHAPES = (
    Shape(batch=2, heads=4, kv_heads=2, seq_q=37, seq_kv=53, dim=16, value_dim=16),
    Shape(batch=1, heads=6, kv_heads=3, seq_q=61, seq_kv=29, dim=8, value_dim=8),
)
LONG = Shape(batch=1, heads=2, seq_q=70, seq_kv=1300, dim=32)  # several of the largest tiles that anybody takes
ONE = Shape(batch=1, heads=2, kv_heads=1, seq_q=1, seq_kv=300, dim=32)
ODD = (ONE, Shape(heads=3, seq_q=259, seq_kv=130, dim=64), LONG)


@cache
def fast_suspects() -> Sequence[Suspect]:
    return suspects([*SCALE, *SOFTMAX, *HEADS])


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FAST, case.q, case.k, case.v).value


def expect(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected}


@check(VALUES, points=2, concept="same-values")
def fast_values(ctx: Context) -> None:
    """Two geometries; a mistake is named when both show it. Then one of them again, with other numbers."""
    Examination(call=call, make=drawing(*SHAPES), expect=expect, suspects=fast_suspects).run(ctx)
    case = draw(ctx.rng("fresh"), SHAPES[0])
    _require(ctx, call(ctx, case), case.expected, case)


@check("s4-fast.lengths", points=1, concept="same-values", needs=(VALUES,))
def fast_lengths(ctx: Context) -> None:
    """One query, lengths that no block size divides, logits far from 0; inputs stay as they are."""
    for number, shape in enumerate(ODD):
        Examination(call=call, make=drawing(shape, spread=1.0), expect=expect).run(ctx)
        case = draw(ctx.rng(f"again/{number}"), shape, spread=4.0)
        outcome = ctx.subject.call(FAST, case.q, case.k, case.v)
        unchanged(ctx, outcome.changed, ("q", "k", "v"))
        _require(ctx, outcome.value, case.expected, case)


@check("s4-fast.speed", points=7, concept="measured-speed", needs=(VALUES, "s4-fast.lengths"))
def fast_speed(ctx: Context) -> None:
    """Pairs of timed calls on fresh inputs; every value is compared with what the start gives for the same inputs."""
    shape = _shape(ctx)
    expected = draw(ctx.rng("tolerance"), shape).expected
    cases: dict[int, Attention] = {}
    with speed.started(ctx.subject, START.read_text("utf-8")) as start:

        def inputs(number: int) -> tuple[Tensor, Tensor, Tensor]:
            cases.clear()
            case = cases[number] = draw(ctx.rng(f"timed/{number}"), shape)
            return case.q, case.k, case.v

        def inspect(number: int, _: tuple[Any, ...], mine: Outcome, theirs: Outcome) -> None:
            unchanged(ctx, mine.changed, ("q", "k", "v"))
            same = Expected("attn_out", theirs.value.double(), 2 * expected.tol, expected.dtype)
            _require(ctx, mine.value, same, cases[number])

        found = speed.measure(ctx.subject, start, (FAST, SLOW), inputs, inspect, WANTED)
    case = say(
        "B=1 N1={n1} N2={n2} S1=S2={s} D={d}，{pairs} 对，一个线程的 CPU 时间",
        "B=1 N1={n1} N2={n2} S1=S2={s} D={d}, {pairs} pairs, CPU time of one thread",
        n1=shape.heads, n2=shape.kv_heads, s=shape.seq_q, d=shape.dim, pairs=found.pairs,
    )  # fmt: skip
    told = say(
        "是起点的 {ratio:.2f} 倍快（99 % 区间 {low:.2f}～{high:.2f}；{case}）",
        "{ratio:.2f} times as fast as the start (99 % interval {low:.2f} to {high:.2f}; {case})",
        ratio=found.estimate, low=found.low, high=found.high, case=case,
    )  # fmt: skip
    if found.estimate >= WANTED:
        ctx.say_when_passed(told, found.to_json())
        return
    ctx.fail(
        told.plus(
            say(
                "；要 {wanted:g} 倍。测了 {times} 遍都不够。先用 profiler 看时间花在哪。",
                "; {wanted:g} is asked for. Measured {times} times. Look with a profiler where the time goes.",
                wanted=WANTED,
                times=speed.ATTEMPTS,
            ),
            "",
        ),
        misconception="not-faster" if found.estimate < 1.15 else "too-little-faster",
        evidence=found.to_json(),
    )


def _shape(ctx: Context) -> Shape:
    """Another one for every learner: an answer made for one shape helps nobody. Large enough that a call takes tens of
    milliseconds, a hundred times what the clock and the wire add."""
    rng = ctx.rng("shape")
    length, group = int(rng.integers(960, 1090)), int(rng.integers(1, 3))
    return Shape(batch=1, heads=8, kv_heads=8 // group, seq_q=length, dim=64)


def _require(ctx: Context, value: Any, expected: Expected, case: Attention) -> None:
    (got,) = require_tensors(ctx, value, ("attn_out",))
    require_like(ctx, got, expected)
    if not right(got, expected):
        ctx.fail(describe(got, expected), evidence=evidence_of(got, expected, case.describe()))
