# flashdojo: exercise=s2-tiles check=s2-tiles.causal,s2-tiles.window misconception=tiles-causal
# idea: The right limit of a row of tiles is taken from its first query, so tiles that only later queries see are left out.
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    if mask_mode == 0:
        left = right = None
    elif mask_mode == 3:
        left, right = None, 0
    else:
        left = None if win_left == -1 else win_left
        right = None if win_right == -1 else win_right
    off = seq_kv - seq_q

    out = []
    for i, q_start in enumerate(range(0, seq_q, block_q)):
        q_stop = min(q_start + block_q, seq_q)
        for j, k_start in enumerate(range(0, seq_kv, block_kv)):
            k_last = min(k_start + block_kv, seq_kv) - 1
            # does the tile lie right of the band?
            if right is not None and k_start > q_start + off + right:
                continue
            # does the tile lie left of the band?
            if left is not None and k_last < q_start + off - left:
                continue
            # rows above the whole band see nothing
            if right is not None and q_stop - 1 + off + right < 0:
                continue
            out.append((i, j))
    return out
