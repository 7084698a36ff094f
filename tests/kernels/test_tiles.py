"""The arithmetic of tiles.py against a mask written out in full."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import oracle, visible_tiles
from kernels.tiles import band, span

lengths = st.integers(1, 40)
blocks = st.integers(1, 48)
masks = st.one_of(
    st.just((0, -1, -1)), st.just((3, -1, -1)), st.tuples(st.just(4), st.integers(-1, 45), st.integers(-1, 45))
)


@given(lengths, lengths, blocks, blocks, masks)
def test_visible_and_cut_tiles(seq_q, seq_kv, block_q, block_kv, mask):
    seen = oracle.visible(seq_q, seq_kv, *mask)
    limits = band(seq_q, seq_kv, *mask)
    expected = []
    for i in range(math.ceil(seq_q / block_q)):
        for j in range(math.ceil(seq_kv / block_kv)):
            rows, cols = span(i, block_q, seq_q), span(j, block_kv, seq_kv)
            tile = seen[rows, cols]
            if tile.any():
                expected.append((i, j))
            assert limits.cuts(rows, cols) == (not tile.all())
            assert torch.equal(limits.bias(rows, cols, torch.zeros(1)) == 0, tile)
    assert visible_tiles(seq_q, seq_kv, block_q, block_kv, *mask) == expected


def test_time_depends_on_the_visible_tiles_only():
    tiles = visible_tiles(2**30, 2**30, 2**23, 2**23, 4, 10, 0)
    assert tiles == [(0, 0)] + [(i, j) for i in range(1, 128) for j in (i - 1, i)]


def test_no_keys_or_no_queries():
    assert visible_tiles(0, 5, 4, 4) == []
    assert visible_tiles(5, 0, 4, 4, 3) == []


def test_an_unknown_mask_mode_is_refused():
    with pytest.raises(ValueError, match="mask_mode"):
        visible_tiles(4, 4, 2, 2, 2)
