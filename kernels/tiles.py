"""Which tiles a mask leaves visible and which it cuts, by arithmetic on a tile's corners.

Every mask of the course is a band along the diagonal: query i sees key j when lowest <= j - i <= highest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Band(NamedTuple):
    """The limits of key - query. Query rows and key columns come as slices with start and stop."""

    lowest: int
    highest: int

    def columns(self, rows: slice, seq_kv: int) -> range:
        """The keys that some query of rows sees; one after the other, because the band moves by 1 per query."""
        return range(max(0, rows.start + self.lowest), min(seq_kv, rows.stop + self.highest))

    def cuts(self, rows: slice, cols: slice) -> bool:
        """Whether some query of rows does not see some key of cols."""
        return cols.start - (rows.stop - 1) < self.lowest or cols.stop - 1 - rows.start > self.highest

    def bias(self, rows: slice, cols: slice, like: Tensor) -> Tensor:
        """What to add to the scores [rows, cols]: 0 where the query sees the key, -inf where not."""
        query = torch.arange(rows.start, rows.stop, device=like.device)[:, None]
        key = torch.arange(cols.start, cols.stop, device=like.device)
        hidden = (key < query + self.lowest) | (key > query + self.highest)
        return torch.zeros_like(hidden, dtype=like.dtype).masked_fill_(hidden, -math.inf)


def band(seq_q: int, seq_kv: int, mask_mode: int = 0, win_left: int = -1, win_right: int = -1) -> Band:
    """mask_mode 0: every key; 3: causal; 4: win_left keys before and win_right after the diagonal (-1: all of them).

    The diagonal ends in the bottom right corner. Raises ValueError for another mask_mode.
    """
    if mask_mode not in (0, 3, 4):
        raise ValueError(f"mask_mode must be 0 (none), 3 (causal) or 4 (window), not {mask_mode}")
    left = win_left if mask_mode == 4 else -1
    right = {0: -1, 3: 0, 4: win_right}[mask_mode]
    shift = seq_kv - seq_q
    return Band(shift - left if left >= 0 else -seq_q, shift + right if right >= 0 else seq_kv)


def span(index: int, block: int, length: int) -> slice:
    """The positions of tile number index; the last tile may be short."""
    return slice(index * block, min((index + 1) * block, length))


def visible_tiles(
    seq_q: int, seq_kv: int, block_q: int, block_kv: int, mask_mode: int = 0, win_left: int = -1, win_right: int = -1
) -> list[tuple[int, int]]:
    """The tiles (i, j) in which some query sees some key, row by row. Time grows with their number only."""
    limits = band(seq_q, seq_kv, mask_mode, win_left, win_right)
    tiles = []
    for i in range(-(-seq_q // block_q)):
        keys = limits.columns(span(i, block_q, seq_q), seq_kv)
        if keys:
            tiles += [(i, j) for j in range(keys[0] // block_kv, keys[-1] // block_kv + 1)]
    return tiles
