"""The O(N) gate: what a call adds to the memory of the process, against what an N x N matrix would need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.subject import Outcome, Trace
from grader.text import say
from grader.vocabulary import Context


@dataclass(frozen=True)
class Size:
    """A length at which memory is measured: one head, ``length`` queries and keys, tiles of ``block`` x ``block``."""

    length: int
    block: int
    limit: int  # bytes that a call may add: well below one length x length matrix of float32


QUICK = Size(1152, 192, 4_400_000)  # of 5.3 MB. Below it there is surely no matrix; above it there may still be none
SURE = Size(2304, 256, 17_500_000)  # of 21.2 MB: room for 16 tiles of 512 x 512, of float64 too
HELD = 3_000_000  # bytes held before that a call may use at the SURE size before they count as well

Measure = Callable[[Context, Size], Outcome]


def _spanning(trace: Trace, length: int) -> int:
    """Scores exponentiated in pieces that span a whole sequence. Those of tiles are no longer than a block, those of
    statistics are few."""
    return sum(elements for longest, elements in trace.exponentials.items() if 2 * longest >= length)


def _require_pieces(ctx: Context, trace: Trace, length: int) -> None:
    """Fails when scores span a whole sequence, a few rows or columns at a time: O(N) memory without tiles."""
    whole = _spanning(trace, length)
    if 4 * whole < length * length:
        return
    ctx.fail(
        say(
            "长度 {n} 时，算 exp 的分数一次跨过整个序列：query 或 key 有一边没有分块。",
            "At length {n} exp is taken of scores that span the whole sequence: queries or keys are not tiled.",
            n=length,
        ),
        misconception="one-side-not-tiled",
        evidence={"max_error": whole, "tolerance": length * length // 4, "case": f"N={length}"},
    )


def require_no_matrix(ctx: Context, trace: Trace, rows: int, columns: int) -> None:
    """Fails when one tensor had an entry for every pair of positions: scores, weights, or a mask, however small its
    entries are."""
    if trace.largest < rows * columns:
        return
    shape = list(trace.largest_shape)
    ctx.fail(
        say(
            "出现了形状 {shape} 的中间张量（{op}）：每一对 query 和 key 都占了一个元素，内存是 O(N²)。",
            "An intermediate of shape {shape} appeared ({op}): one element for every pair of query and key, which is "
            "O(N^2) memory.",
            shape=shape,
            op=trace.largest_op,
        ),
        misconception="quadratic-memory",
        evidence={"max_error": trace.largest, "tolerance": rows * columns - 1, "shape": shape},
    )


def require_linear(ctx: Context, measure: Measure) -> None:
    """Fails when a call was seen to meet whole rows or to make an N x N tensor, or grew memory by more than the limit.

    ``measure`` runs the call at a size and checks what it returned, so that what ran is what was measured. Most answers
    show at the quick size that they need no matrix; the others are judged at the sure one, four times the work.
    """
    if not _surely_linear(measure(ctx, QUICK), QUICK):
        _require_linear(ctx, measure(ctx, SURE), SURE)


def _surely_linear(outcome: Outcome, size: Size) -> bool:
    """Neither seen nor, with all that was held before, possible."""
    trace, matrix = outcome.trace, size.length * size.length
    if trace is not None and (trace.largest >= matrix or 4 * _spanning(trace, size.length) >= matrix):
        return False
    return outcome.peak_bytes is None or outcome.peak_bytes + (outcome.held_bytes or 0) <= size.limit


def _require_linear(ctx: Context, outcome: Outcome, size: Size) -> None:
    if outcome.trace is not None:
        require_no_matrix(ctx, outcome.trace, size.length, size.length)
        _require_pieces(ctx, outcome.trace, size.length)
    if outcome.peak_bytes is None:
        return  # this machine cannot measure it; the observer's checks still look at sizes
    used = outcome.peak_bytes + max(0, (outcome.held_bytes or 0) - HELD)
    if used <= size.limit:
        return
    matrix = 4 * size.length**2
    ctx.fail(
        say(
            "长度 {n} 时这次调用多用了 {mb:.0f} MB 内存（上限 {limit:.0f} MB）。"
            "一个 {n}×{n} 的 float32 矩阵是 {square:.0f} MB。",
            "At length {n} the call took {mb:.0f} MB more memory (limit {limit:.0f} MB). "
            "One {n} x {n} float32 matrix is {square:.0f} MB.",
            n=size.length,
            mb=used / 1e6,
            limit=size.limit / 1e6,
            square=matrix / 1e6,
        ),
        misconception="quadratic-memory" if used >= matrix else "too-much-memory",
        evidence={"max_error": round(used, -6), "tolerance": size.limit, "case": f"N={size.length}"},
    )
