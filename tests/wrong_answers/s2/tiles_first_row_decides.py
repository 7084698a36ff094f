# flashdojo: exercise=s2-tiles check=s2-tiles.causal,s2-tiles.window misconception=tiles-causal
"""Asks only the first query of the tile what it can see."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    tiles = []
    for i in range(-(-seq_q // block_q)):
        pos = i * block_q + seq_kv - seq_q
        first, last = 0, seq_kv - 1
        if mask_mode == 3:
            last = min(last, pos)
        if mask_mode == 4:
            if win_left >= 0:
                first = max(first, pos - win_left)
            if win_right >= 0:
                last = min(last, pos + win_right)
        for j in range(-(-seq_kv // block_kv)):
            if first <= last and j * block_kv <= last and (j + 1) * block_kv > first:
                tiles.append((i, j))
    return tiles
