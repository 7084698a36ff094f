# flashdojo: exercise=s2-tiles check=s2-tiles.window misconception=tiles-corner
# idea: The left limit of a row of tiles is taken from its last query, so keys that only its first queries see are left out.
import math


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    wl, wr = -1, -1
    if mask_mode == 3:
        wr = 0
    if mask_mode == 4:
        wl, wr = win_left, win_right

    tiles = []
    n_q = math.ceil(seq_q / block_q)
    n_k = math.ceil(seq_kv / block_kv)
    for i in range(n_q):
        top = i * block_q + seq_kv - seq_q
        bottom = min((i + 1) * block_q, seq_q) - 1 + seq_kv - seq_q
        lo = 0
        if wl != -1:
            lo = max(lo, bottom - wl)
        hi = seq_kv - 1
        if wr != -1:
            hi = min(hi, bottom + wr)
        for j in range(n_k):
            tile_lo, tile_hi = j * block_kv, min((j + 1) * block_kv, seq_kv) - 1
            if tile_hi >= lo and tile_lo <= hi:
                tiles.append((i, j))
    return tiles
