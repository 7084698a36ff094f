"""Checks of the parts of FlashAttention: s2-update, s2-merge, s2-tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from grader.cases import normal
from grader.compare import describe, distance, evidence_of, require_tensors, returned, right
from grader.examine import Examination, all_right, only, unchanged
from grader.vocabulary import Context, check, say
from grader.wrong_attention import State

from .states import (
    NAMES, Merge, Update, draw_merge, draw_state, draw_update, expectations, fresh, join, merge_suspects, update_suspects,
)  # fmt: skip
from .tile_mistakes import Grid, Tiles, right_tiles, wrong_tiles

# s2-update -------------------------------------------------------------------------------------------------------


def _update(ctx: Context, case: Update) -> Any:
    return ctx.subject.call("online_softmax_update", case.state, case.scores, case.values).value


def _updated(make: Any, **more: Any) -> Examination:
    return Examination(call=_update, make=make, expect=lambda case: case.expected, suspects=update_suspects, **more)


@check("s2-update.values", points=3, concept="online-rescaling")
def update_values(ctx: Context) -> None:
    """One tile more, when the maximum grows in some rows and not in others."""
    _updated(
        draw_update, catch=lambda: only(update_suspects(), "acc-not-rescaled", "sum-not-rescaled", "rescale-inverted", "tile-max-in-p"),
    ).run(ctx)  # fmt: skip


@check("s2-update.first-tile", points=2, concept="online-start", needs=("s2-update.values",))
def update_first_tile(ctx: Context) -> None:
    """From (-inf, 0, 0)."""

    def make(rng: np.random.Generator, n: int) -> Update:
        state = fresh((2, 5 + n), 3)
        return Update(state, normal(rng, 2, 5 + n, 4), normal(rng, 2, 4, 3), say("第一块", "the first tile"))

    _isolated(make, "first-tile").run(ctx)


def _isolated(make: Any, otherwise: str) -> Examination:
    """What goes wrong here goes wrong only here: an ordinary update on the same shapes is right."""

    def control(ctx: Context, case: Update) -> bool:
        rng = ctx.rng("control")
        state = draw_state(rng, tuple(case.state[0].shape[:-1]), case.values.shape[-1])
        ordinary = Update(state, normal(rng, *case.scores.shape), case.values, case.what)
        return all_right(_update(ctx, ordinary), ordinary.expected)

    return _updated(make, otherwise=otherwise, control=control, known=(draw_update,))


@check("s2-update.masked-tile", points=2, concept="masked-tile", needs=("s2-update.values",))
def update_masked_tile(ctx: Context) -> None:
    """A tile that hides every key from some rows, before and after these rows have seen one."""

    def empty(rng: np.random.Generator, n: int) -> Update:
        scores = normal(rng, 2, 6, 4 + n)
        scores[:, ::2] = -math.inf
        return Update(fresh((2, 6), 3), scores, normal(rng, 2, 4 + n, 3), say("首块把一些行全遮住", "a first tile hides some rows"))

    def later(rng: np.random.Generator, n: int) -> Update:
        scores = normal(rng, 2, 6, 4 + n)
        scores[:, 1::2] = -math.inf
        return Update(draw_state(rng, (2, 6), 3), scores, normal(rng, 2, 4 + n, 3), say("中间一块把一些行全遮住", "a later tile hides some rows"))

    _isolated(later, "masked-tile").run(ctx)
    _isolated(empty, "masked-tile").run(ctx)


@check("s2-update.several-tiles", points=2.5, concept="online-rescaling", needs=("s2-update.values", "s2-update.first-tile"))
def update_several_tiles(ctx: Context) -> None:
    """Tile after tile over all keys: acc / row_sum is softmax(scores) @ values. Levels rise and fall from tile to tile."""
    rng = ctx.rng()
    scores, values = normal(rng, 2, 7, 23, spread=3.0), normal(rng, 2, 23, 4)
    scores += torch.linspace(-20, 20, 23) * torch.tensor([1.0, -1.0])[:, None, None]
    state: State = fresh((2, 7), 4)
    for start in range(0, 23, 6):
        part = slice(start, start + 6)
        state = require_tensors(ctx, ctx.subject.call("online_softmax_update", state, scores[..., part], values[:, part]).value, NAMES)  # type: ignore[assignment]
    got = state[2].double() / state[1].double()
    truth = scores.double().softmax(-1) @ values.double()
    if not distance(got, truth) <= 2e-5:
        ctx.fail(
            say("逐块更新后 acc / row_sum 与 softmax(scores) @ values 最多差 {error:.2g}。",
                "After all tiles acc / row_sum differs from softmax(scores) @ values by up to {error:.2g}.", error=distance(got, truth)),
            evidence={"max_error": str(distance(got, truth)), "tolerance": 2e-5},
        )


@check("s2-update.inputs", points=0.5, concept="inputs", needs=("s2-update.values",))
def update_inputs(ctx: Context) -> None:
    """The caller's state, scores and values stay as they were."""
    case = draw_update(ctx.rng(), 0)
    outcome = ctx.subject.call("online_softmax_update", case.state, case.scores, case.values)
    unchanged(ctx, outcome.changed, ("state", "scores", "values"))


# s2-merge --------------------------------------------------------------------------------------------------------


def _merge(ctx: Context, case: Merge) -> Any:
    return ctx.subject.call("merge_states", case.a, case.b).value


def _merged(make: Any, **more: Any) -> Examination:
    return Examination(call=_merge, make=make, expect=lambda case: case.expected, suspects=merge_suspects, **more)


def _ordinary(ctx: Context, case: Merge) -> bool:
    """Two states with keys, on the shapes of ``case``, merge right."""
    shape, dim = tuple(case.a[0].shape[:-1]), case.a[2].shape[-1]
    rng = ctx.rng("control")
    ordinary = Merge(draw_state(rng, shape, dim), draw_state(rng, shape, dim), case.what)
    return all_right(_merge(ctx, ordinary), ordinary.expected)


@check("s2-merge.values", points=2, concept="merge")
def merge_values(ctx: Context) -> None:
    _merged(
        draw_merge, catch=lambda: only(merge_suspects(), "acc-not-rescaled", "sum-not-rescaled", "rescale-inverted", "merge-one-side"),
    ).run(ctx)  # fmt: skip


@check("s2-merge.neutral", points=1, concept="masked-tile", needs=("s2-merge.values",))
def merge_neutral(ctx: Context) -> None:
    """(-inf, 0, 0) on either side changes nothing."""
    for left in (True, False):
        def make(rng: np.random.Generator, n: int, left: bool = left) -> Merge:
            some, none = draw_state(rng, (2, 4 + n), 3), fresh((2, 4 + n), 3)
            return Merge(none, some, say("左边为空", "left side empty")) if left else Merge(some, none, say("右边为空", "right side empty"))

        _merged(make, otherwise="merge-empty", control=_ordinary, known=(draw_merge,)).run(ctx)


@check("s2-merge.both-empty", points=1, concept="masked-tile", needs=("s2-merge.values",))
def merge_both_empty(ctx: Context) -> None:
    _merged(
        lambda rng, n: Merge(fresh((2, 4 + n), 3), fresh((2, 4 + n), 3), say("两边都为空", "both sides empty")),
        otherwise="merge-empty", control=_ordinary, known=(draw_merge,),
    ).run(ctx)  # fmt: skip


@check("s2-merge.associative", points=1, concept="merge", needs=("s2-merge.values",))
def merge_associative(ctx: Context) -> None:
    """(a + b) + c = a + (b + c), with maxima far apart."""
    rng = ctx.rng()
    a, b, c = (draw_state(rng, (3, 5), 4, level) for level in (-30.0, 0.0, 25.0))

    def merged(x: State, y: State) -> State:
        return require_tensors(ctx, ctx.subject.call("merge_states", x, y).value, NAMES)  # type: ignore[return-value]

    double = [tuple(part.double() for part in state) for state in (a, b, c)]
    expected = expectations(join(join(double[0], double[1]), double[2]), 60.0)  # type: ignore[arg-type]
    for state in (merged(merged(a, b), c), merged(a, merged(b, c)), merged(merged(c, a), b)):
        for name, part in zip(NAMES, state, strict=True):
            if not right(part, expected[name]):
                ctx.fail(
                    say("合并次序不同，结果就不同：", "The result depends on the order of merging: ").plus(describe(part, expected[name]), ""),
                    misconception="merge-not-associative", evidence=evidence_of(part, expected[name]),
                )


# s2-tiles --------------------------------------------------------------------------------------------------------


def _tiles(ctx: Context, grid: Grid) -> Tiles:
    args, options = grid.call()
    value = ctx.subject.call("visible_tiles", *args, **options).value
    if not isinstance(value, Sequence) or isinstance(value, str):
        ctx.fail(
            say("应返回 (i, j) 的列表，得到 {got}。", "It must return a list of (i, j), it returned {got}.", got=returned(value)),
            misconception="wrong-return", evidence={"got": returned(value)},
        )
    if not all(isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(x, int) for x in item) for item in value):
        ctx.fail(
            say("列表的每一项应是两个整数 (i, j)，得到 {got}。", "Each item must be a pair of integers (i, j), they are {got}.",
                got=returned(value[0]) if value else "[]"),
            misconception="wrong-return", evidence={"got": returned(value)},
        )
    return [tuple(item) for item in value]  # type: ignore[misc]


def _check_tiles(ctx: Context, grids: Sequence[Grid], otherwise: str | None = None) -> None:
    """All ``grids`` must be right. A wrong idea is named when it, and no other, explains them all and two are wrong."""
    seen = [(grid, _tiles(ctx, grid)) for grid in grids]
    wrong = [(grid, got) for grid, got in seen if got != right_tiles(grid)]
    if not wrong:
        return
    fitting = {id for id, tiles in wrong_tiles() if all(tiles(grid) == got for grid, got in seen)} if len(wrong) > 1 else set()
    grid, got = wrong[0]
    want = right_tiles(grid)
    missing, extra = [t for t in want if t not in got], [t for t in got if t not in want]
    if missing or extra:
        text = say("{grid}：少了 {missing}，多了 {extra}。", "{grid}: missing {missing}, too many {extra}.",
                   grid=grid, missing=_some(missing), extra=_some(extra))
    elif len(got) > len(want):
        text = say("{grid}：有重复的块。", "{grid}: some tiles come twice.", grid=grid)
    else:
        text = say("{grid}：块都对，次序不对，应逐行排列。", "{grid}: the tiles are right, their order is not: row by row.", grid=grid)
    doubled = not missing and not extra and len(got) > len(want)
    name = fitting.pop() if len(fitting) == 1 else "tiles-duplicated" if doubled else otherwise
    ctx.fail(text, misconception=name, evidence={"case": str(grid), "expected": _some(want), "got": _some(got)})


def _some(tiles: Tiles) -> str:
    return ", ".join(map(str, tiles[:8])) + (", ..." if len(tiles) > 8 else "") if tiles else "-"


@check("s2-tiles.all", points=3, concept="tile-lists")
def tiles_all(ctx: Context) -> None:
    """No mask: every tile, the short last ones included, row by row; blocks larger than the sequence."""
    rng = ctx.rng()
    a, b = (int(x) for x in rng.integers(1, 4, 2))
    _check_tiles(ctx, [Grid(32 + a, 48, 16, 16), Grid(40 + b, 20 + a, 8, 16), Grid(5, 7, 16, 32), Grid(24, 36, 8, 12)])


@check("s2-tiles.causal", points=3, concept="causal", needs=("s2-tiles.all",))
def tiles_causal(ctx: Context) -> None:
    """S1 = S2, tiles that are not square included."""
    _check_tiles(ctx, [Grid(64, 64, 16, 16, 3), Grid(60, 60, 16, 8, 3), Grid(50, 50, 8, 24, 3)], "tiles-causal")


@check("s2-tiles.causal-offset", points=1.5, concept="causal-alignment", needs=("s2-tiles.all", "s2-tiles.causal"))
def tiles_causal_offset(ctx: Context) -> None:
    """S1 < S2 and S1 > S2: aligned bottom-right; query tiles that see nothing are left out."""
    _check_tiles(ctx, [Grid(32, 56, 8, 8, 3), Grid(56, 30, 8, 12, 3), Grid(5, 41, 4, 8, 3), Grid(41, 5, 8, 4, 3)], "causal-alignment")


@check("s2-tiles.window", points=1.5, concept="window", needs=("s2-tiles.all",))
def tiles_window(ctx: Context) -> None:
    """Mode 4: both sides, one side, no side, S1 != S2."""
    _check_tiles(ctx, [
        Grid(64, 64, 8, 8, 4, 10, 5), Grid(48, 48, 8, 4, 4, 7, 0), Grid(40, 64, 8, 8, 4, 12, 3), Grid(64, 40, 8, 8, 4, 9, 2),
        Grid(48, 48, 8, 8, 4, -1, 9), Grid(48, 48, 8, 8, 4, 9, -1), Grid(30, 44, 8, 8, 4, -1, -1), Grid(44, 30, 8, 8, 4, 0, 0),
    ], "tiles-window")  # fmt: skip


@check("s2-tiles.cheap", points=1, concept="linear-memory", needs=("s2-tiles.all", "s2-tiles.causal"))
def tiles_cheap(ctx: Context) -> None:
    """4096 x 4096 by arithmetic on tiles: no S1 x S2 mask (16 MB) is built."""
    grid = Grid(4096, 4096, 512, 512, 3)
    args, options = grid.call()
    outcome = ctx.subject.call("visible_tiles", *args, memory=True, **options)
    if outcome.peak_bytes is not None and outcome.peak_bytes > 8_000_000:
        ctx.fail(
            say("求块表时用了 {mb:.0f} MB：不要建 S1×S2 的掩码，用块的首尾行算。",
                "Listing the tiles took {mb:.0f} MB: do not build the S1 x S2 mask, compute from the tiles' first and last rows.",
                mb=outcome.peak_bytes / 1e6),
            misconception="tiles-quadratic", evidence={"max_error": outcome.peak_bytes, "tolerance": 8_000_000},
        )
    if list(map(tuple, outcome.value)) != [(i, j) for i in range(8) for j in range(i + 1)]:
        ctx.fail(say("{grid}：块表不对。", "{grid}: wrong tiles.", grid=grid), evidence={"case": str(grid)})
