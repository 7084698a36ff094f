# flashdojo: exercise=s2-tiles check=s2-tiles.all misconception=tiles-tail-dropped
"""seq // block: the ragged tiles at the end are lost."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    tiles = []
    delta = seq_kv - seq_q
    for i in range(seq_q // block_q):
        for j in range(seq_kv // block_kv):
            q_lo, q_hi = i * block_q, (i + 1) * block_q - 1
            k_lo, k_hi = j * block_kv, (j + 1) * block_kv - 1
            if mask_mode == 3 and k_lo > q_hi + delta:
                continue
            if mask_mode == 4:
                if win_right >= 0 and k_lo > q_hi + delta + win_right:
                    continue
                if win_left >= 0 and k_hi < q_lo + delta - win_left:
                    continue
            tiles.append((i, j))
    return tiles
