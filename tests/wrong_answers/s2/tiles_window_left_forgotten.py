# flashdojo: exercise=s2-tiles check=s2-tiles.window misconception=window-one-side
"""Only the right edge of the window is looked at."""
import math


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    shift = seq_kv - seq_q
    limit = {0: -1, 3: 0, 4: win_right}[mask_mode]
    tiles = []
    for i in range(math.ceil(seq_q / block_q)):
        last_query = min((i + 1) * block_q, seq_q) - 1
        for j in range(math.ceil(seq_kv / block_kv)):
            if limit >= 0 and j * block_kv > last_query + shift + limit:
                break
            tiles.append((i, j))
    return tiles
