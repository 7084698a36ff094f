# flashdojo: exercise=s2-tiles check=s2-tiles.causal-offset,s2-tiles.window misconception=causal-strict
"""< instead of <=: the tile that the diagonal only touches with a corner is lost."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    d = seq_kv - seq_q
    out = []
    for i in range((seq_q + block_q - 1) // block_q):
        for j in range((seq_kv + block_kv - 1) // block_kv):
            r0, r1 = i * block_q, min(i * block_q + block_q, seq_q) - 1
            c0, c1 = j * block_kv, min(j * block_kv + block_kv, seq_kv) - 1
            if mask_mode == 0:
                out.append((i, j))
            elif mask_mode == 3:
                if c0 < r1 + d:
                    out.append((i, j))
            else:
                right_ok = win_right < 0 or c0 < r1 + d + win_right
                left_ok = win_left < 0 or c1 > r0 + d - win_left
                if right_ok and left_ok:
                    out.append((i, j))
    return out
