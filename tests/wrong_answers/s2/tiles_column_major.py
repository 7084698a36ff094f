# flashdojo: exercise=s2-tiles check=s2-tiles.all misconception=tiles-order
"""Key tiles outside: the right tiles in the wrong order."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    delta = seq_kv - seq_q
    rows, cols = -(-seq_q // block_q), -(-seq_kv // block_kv)
    tiles = []
    for j in range(cols):
        for i in range(rows):
            first_row, last_row = i * block_q + delta, min((i + 1) * block_q, seq_q) - 1 + delta
            first_col, last_col = j * block_kv, min((j + 1) * block_kv, seq_kv) - 1
            ok = True
            if mask_mode == 3:
                ok = first_col <= last_row
            elif mask_mode == 4:
                ok = (win_right < 0 or first_col <= last_row + win_right) and (win_left < 0 or last_col >= first_row - win_left)
            if ok:
                tiles.append((i, j))
    return tiles
