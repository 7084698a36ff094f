"""Which tiles are visible: the right list by brute force, and the lists that wrong ideas give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL
from grader.checking.cases import Attention
from kernels import oracle

from .mask_mistakes import WINDOW

Tiles = list[tuple[int, int]]


@dataclass(frozen=True)
class Grid:
    """Arguments of ``visible_tiles``."""

    seq_q: int
    seq_kv: int
    block_q: int
    block_kv: int
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1

    @cached_property
    def mask(self) -> Tensor:
        return oracle.visible(self.seq_q, self.seq_kv, self.mask_mode, self.win_left, self.win_right)

    def call(self) -> tuple[tuple[int, ...], dict[str, int]]:
        options: dict[str, int] = {"mask_mode": self.mask_mode} if self.mask_mode else {}
        if self.mask_mode == 4:
            options |= {"win_left": self.win_left, "win_right": self.win_right}
        return (self.seq_q, self.seq_kv, self.block_q, self.block_kv), options

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in list(vars(self).items())[:7])


def tiles_of(mask: Tensor, block_q: int, block_kv: int, whole: bool = False) -> Tiles:
    """Tiles with a visible pair in them (``whole``: with nothing else), row by row."""
    found = []
    for i in range(0, mask.shape[0], block_q):
        for j in range(0, mask.shape[1], block_kv):
            tile = mask[i : i + block_q, j : j + block_kv]
            if bool(tile.all() if whole else tile.any()):
                found.append((i // block_q, j // block_kv))
    return found


def right_tiles(grid: Grid) -> Tiles:
    return tiles_of(grid.mask, grid.block_q, grid.block_kv)


def _case(grid: Grid) -> Attention:
    q, k = torch.zeros(1, 1, grid.seq_q, 1), torch.zeros(1, 1, grid.seq_kv, 1)
    return Attention(q, k, k, None, grid.mask_mode, grid.win_left, grid.win_right, grid.block_q, grid.block_kv)


def _mask(visible: Callable[[Attention], Tensor]) -> Callable[[Grid], Tiles]:
    return lambda grid: tiles_of(visible(_case(grid)).expand(grid.seq_q, grid.seq_kv), grid.block_q, grid.block_kv)


def _every(grid: Grid) -> Tiles:
    return tiles_of(torch.ones(grid.seq_q, grid.seq_kv, dtype=torch.bool), grid.block_q, grid.block_kv)


def _fits(grid: Grid, tile: tuple[int, int], rows: bool = True, columns: bool = True) -> bool:
    i, j = tile
    return (not rows or (i + 1) * grid.block_q <= grid.seq_q) and (
        not columns or (j + 1) * grid.block_kv <= grid.seq_kv
    )


def _corner(row: int, column: int) -> Callable[[Grid], Tiles]:
    """Only one corner of the tile is looked at: row 0 first / 1 last, column 0 first / 1 last."""

    def tiles(grid: Grid) -> Tiles:
        mask, found = grid.mask, []
        for i, j in _every(grid):
            query = min((i + row) * grid.block_q - row, grid.seq_q - 1)
            key = min((j + column) * grid.block_kv - column, grid.seq_kv - 1)
            if bool(mask[query, key]):
                found.append((i, j))
        return found

    return tiles


def _row(which: int) -> Callable[[Grid], Tiles]:
    """Only the tile's first (0) or last (1) query is asked whether it sees a key of the tile."""

    def tiles(grid: Grid) -> Tiles:
        found = []
        for i, j in _every(grid):
            query = min((i + which) * grid.block_q - which, grid.seq_q - 1)
            if bool(grid.mask[query, j * grid.block_kv : (j + 1) * grid.block_kv].any()):
                found.append((i, j))
        return found

    return tiles


def _by_index(grid: Grid) -> Tiles:
    return [(i, j) for i, j in _every(grid) if j <= i] if grid.mask_mode == 3 else right_tiles(grid)


def _mode_four_off(grid: Grid) -> Tiles:
    return _every(grid) if grid.mask_mode == 4 else right_tiles(grid)


@cache
def wrong_tiles() -> list[tuple[str, Callable[[Grid], Tiles]]]:
    rows: list[tuple[str, Callable[[Grid], Tiles]]] = [
        ("tiles-mask-ignored", _every),
        ("tiles-mask-ignored", _mode_four_off),
        ("tiles-tail-dropped", lambda g: [t for t in right_tiles(g) if _fits(g, t)]),
        ("tiles-tail-dropped", lambda g: [t for t in right_tiles(g) if _fits(g, t, columns=False)]),
        ("tiles-tail-dropped", lambda g: [t for t in right_tiles(g) if _fits(g, t, rows=False)]),
        ("tiles-one-missing", lambda g: [t for t in right_tiles(g) if t[1] < max(j for _, j in _every(g))]),
        ("tiles-one-missing", lambda g: [t for t in right_tiles(g) if t[0] < max(i for i, _ in _every(g))]),
        ("tiles-one-missing", lambda g: [t for t in right_tiles(g) if t != right_tiles(g)[-1]]),
        ("tiles-order", lambda g: sorted(right_tiles(g), key=lambda t: (t[1], t[0]))),
        ("tiles-order", lambda g: [(j, i) for i, j in right_tiles(g)]),
        ("tiles-order", lambda g: sorted((j, i) for i, j in right_tiles(g))),
        ("tiles-order", lambda g: right_tiles(g)[::-1]),
        ("tiles-positions", lambda g: [(i * g.block_q, j * g.block_kv) for i, j in right_tiles(g)]),
        ("tiles-positions", lambda g: [(i + 1, j + 1) for i, j in right_tiles(g)]),
        ("tiles-cut-dropped", lambda g: tiles_of(g.mask, g.block_q, g.block_kv, whole=True)),
        ("tiles-corner", _row(0)),
        ("tiles-corner", _row(1)),
        ("tiles-corner", _corner(0, 0)),
        ("tiles-corner", _corner(1, 1)),
        ("tiles-corner", _corner(0, 1)),
        ("tiles-corner", _corner(1, 0)),
        ("causal-tile-index", _by_index),
        ("tiles-diagonal-only", lambda g: [(i, j) for i, j in _every(g) if i == j]),
    ]
    for id, changes, _ in [*CAUSAL, *WINDOW]:
        if "visible" in changes and id not in ("causal-local-index", "causal-ignored", "window-ignored"):
            rows.append((id, _mask(changes["visible"])))
    return rows
