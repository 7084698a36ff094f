# flashdojo: exercise=s2-tiles check=s2-tiles.causal misconception=causal-tile-index
"""Causal means j <= i, also when the blocks differ in size or the lengths do."""
import math


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    Tr, Tc = math.ceil(seq_q / block_q), math.ceil(seq_kv / block_kv)
    if mask_mode == 0:
        return [(i, j) for i in range(Tr) for j in range(Tc)]
    if mask_mode == 3:
        return [(i, j) for i in range(Tr) for j in range(Tc) if j <= i]
    off, out = seq_kv - seq_q, []
    for i in range(Tr):
        for j in range(Tc):
            rows = range(i * block_q, min((i + 1) * block_q, seq_q))
            cols = range(j * block_kv, min((j + 1) * block_kv, seq_kv))
            if any((win_left < 0 or c >= r + off - win_left) and (win_right < 0 or c <= r + off + win_right) for r in rows for c in cols):
                out.append((i, j))
    return out
