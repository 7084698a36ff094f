"""Checks of s2-tiles: which tiles are visible, in which order, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checking.compare import returned
from grader.text import Text
from grader.vocabulary import Context, check, say

from .tile_mistakes import Grid, Tiles, right_tiles, wrong_tiles


def _tiles(ctx: Context, grid: Grid) -> Tiles:
    args, options = grid.call()
    value = ctx.subject.call("visible_tiles", *args, **options).value
    if not isinstance(value, Sequence) or isinstance(value, str):
        ctx.fail(
            say(
                "应返回 (i, j) 的列表，得到 {got}。",
                "It must return a list of (i, j), it returned {got}.",
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    if not all(
        isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(x, int) for x in item) for item in value
    ):
        ctx.fail(
            say(
                "列表的每一项应是两个整数 (i, j)，得到 {got}。",
                "Each item must be a pair of integers (i, j), they are {got}.",
                got=returned(value[0]) if value else "[]",
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    return [tuple(item) for item in value]  # type: ignore[misc]


def _check_tiles(ctx: Context, grids: Sequence[Grid], otherwise: str | None = None) -> None:
    """All ``grids`` must be right. A wrong idea is named when it, and no other, explains them all and two are wrong."""
    seen = [(grid, _tiles(ctx, grid)) for grid in grids]
    wrong = [(grid, got) for grid, got in seen if got != right_tiles(grid)]
    if not wrong:
        return
    fitting = (
        {id for id, tiles in wrong_tiles() if all(tiles(grid) == got for grid, got in seen)}
        if len(wrong) > 1
        else set()
    )
    grid, got = wrong[0]
    want = right_tiles(grid)
    missing, extra = [t for t in want if t not in got], [t for t in got if t not in want]
    if missing or extra:
        text = say("{grid}：{difference}。", "{grid}: {difference}.", grid=grid, difference=_difference(missing, extra))
    elif len(got) > len(want):
        text = say("{grid}：有重复的块。", "{grid}: some tiles come twice.", grid=grid)
    else:
        text = say(
            "{grid}：块都对，次序不对，应逐行排列。",
            "{grid}: the tiles are right, their order is not: row by row.",
            grid=grid,
        )
    doubled = not missing and not extra and len(got) > len(want)
    name = fitting.pop() if len(fitting) == 1 else "tiles-duplicated" if doubled else otherwise
    ctx.fail(text, misconception=name, evidence={"case": str(grid), "expected": _some(want), "got": _some(got)})


def _difference(missing: Tiles, extra: Tiles) -> Text:
    lacking = say("少了 {some}", "missing {some}", some=_some(missing))
    spare = say("多了 {some}", "not visible: {some}", some=_some(extra))
    if missing and extra:
        return say("{lacking}，{spare}", "{lacking}; {spare}", lacking=lacking, spare=spare)
    return lacking if missing else spare


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
    _check_tiles(
        ctx,
        [Grid(32, 56, 8, 8, 3), Grid(56, 30, 8, 12, 3), Grid(5, 41, 4, 8, 3), Grid(41, 5, 8, 4, 3)],
        "causal-alignment",
    )


@check(
    "s2-tiles.window",
    points=1.5,
    concept="window",
    needs=("s2-tiles.all", "s2-tiles.causal", "s2-tiles.causal-offset"),
)
def tiles_window(ctx: Context) -> None:
    """Mode 4: both sides, one side, no side, S1 != S2."""
    _check_tiles(
        ctx,
        [
            Grid(64, 64, 8, 8, 4, 10, 5),
            Grid(48, 48, 8, 4, 4, 7, 0),
            Grid(40, 64, 8, 8, 4, 12, 3),
            Grid(64, 40, 8, 8, 4, 9, 2),
            Grid(48, 48, 8, 8, 4, -1, 9),
            Grid(48, 48, 8, 8, 4, 9, -1),
            Grid(30, 44, 8, 8, 4, -1, -1),
            Grid(44, 30, 8, 8, 4, 0, 0),
        ],
        "tiles-window",
    )


@check("s2-tiles.cheap", points=1, concept="linear-memory", needs=("s2-tiles.all", "s2-tiles.causal"))
def tiles_cheap(ctx: Context) -> None:
    """4096 x 4096 by arithmetic on tiles: no S1 x S2 mask (16 MB) is built."""
    grid = Grid(4096, 4096, 512, 512, 3)
    args, options = grid.call()
    outcome = ctx.subject.call("visible_tiles", *args, memory=True, **options)
    if outcome.peak_bytes is not None and outcome.peak_bytes > 8_000_000:
        ctx.fail(
            say(
                "求块表时用了 {mb:.0f} MB：不要建 S1×S2 的掩码，用块的首尾行算。",
                "Listing the tiles took {mb:.0f} MB: do not build the S1 x S2 mask, compute from the tiles' first and "
                "last rows.",
                mb=outcome.peak_bytes / 1e6,
            ),
            misconception="tiles-quadratic",
            evidence={"max_error": outcome.peak_bytes, "tolerance": 8_000_000},
        )
    if list(map(tuple, outcome.value)) != [(i, j) for i in range(8) for j in range(i + 1)]:
        ctx.fail(say("{grid}：块表不对。", "{grid}: wrong tiles.", grid=grid), evidence={"case": str(grid)})
