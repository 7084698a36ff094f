"""The O(N) gate: what a call adds to the memory of the process, against what an N x N matrix would need."""

from __future__ import annotations

from grader.subject import Outcome, Trace
from grader.text import say
from grader.vocabulary import Context

LENGTH, BLOCK = 2304, 256  # the length at which memory is measured, in tiles of 0.26 MB
LIMIT = 17_500_000  # bytes a call may add: 16 tiles of 512 x 512, less than one LENGTH x LENGTH matrix (21.2 MB)
HELD = 3_000_000  # bytes of what a program held before that it may use in the call before they count as well


def _require_pieces(ctx: Context, trace: Trace, length: int) -> None:
    """Fails when scores span a whole sequence, a few rows or columns at a time: O(N) memory without tiles.

    Exponentials tell it. Those of tiles are no longer than a block; those of statistics are few.
    """
    whole = sum(elements for longest, elements in trace.exponentials.items() if 2 * longest >= length)
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


def require_linear(ctx: Context, outcome: Outcome) -> None:
    """Fails when a call at ``LENGTH`` was seen to meet whole rows or to make an N x N tensor, or grew memory by more
    than ``LIMIT``. Memory grabbed before the call counts beyond ``HELD``."""
    if outcome.trace is not None:
        require_no_matrix(ctx, outcome.trace, LENGTH, LENGTH)
        _require_pieces(ctx, outcome.trace, LENGTH)
    if outcome.peak_bytes is None:
        return  # this machine cannot measure it; the observer's checks still look at sizes
    used = outcome.peak_bytes + max(0, (outcome.held_bytes or 0) - HELD)
    if used <= LIMIT:
        return
    ctx.fail(
        say(
            "长度 {n} 时这次调用多用了 {mb:.0f} MB 内存（上限 {limit:.0f} MB）。"
            "一个 {n}×{n} 的 float32 矩阵是 {square:.0f} MB。",
            "At length {n} the call took {mb:.0f} MB more memory (limit {limit:.0f} MB). "
            "One {n} x {n} float32 matrix is {square:.0f} MB.",
            n=LENGTH,
            mb=used / 1e6,
            limit=LIMIT / 1e6,
            square=4 * LENGTH**2 / 1e6,
        ),
        misconception="quadratic-memory" if used >= 4 * LENGTH**2 else "too-much-memory",
        evidence={"max_error": used, "tolerance": LIMIT, "case": f"N={LENGTH}"},
    )
