# flashdojo: exercise=s2-tiles check=s2-tiles.window misconception=window-minus-one
"""win = -1 taken as a number, not as unbounded."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    d = seq_kv - seq_q
    n_q, n_k = -(-seq_q // block_q), -(-seq_kv // block_kv)

    def seen(i, j):
        if mask_mode == 0:
            return True
        top, bottom = i * block_q + d, min(seq_q, (i + 1) * block_q) - 1 + d
        left, right = j * block_kv, min(seq_kv, (j + 1) * block_kv) - 1
        if mask_mode == 3:
            return left <= bottom
        return left <= bottom + win_right and right >= top - win_left

    return [(i, j) for i in range(n_q) for j in range(n_k) if seen(i, j)]
