# flashdojo: exercise=s2-tiles check=s2-tiles.cheap misconception=tiles-quadratic
"""The S1 x S2 mask is built and every tile of it is asked whether anything is visible."""
import torch


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    ahead = torch.arange(seq_kv) - torch.arange(seq_q)[:, None] - (seq_kv - seq_q)
    mask = torch.ones(seq_q, seq_kv, dtype=torch.bool)
    if mask_mode == 3:
        mask &= ahead <= 0
    if mask_mode == 4 and win_left >= 0:
        mask &= ahead >= -win_left
    if mask_mode == 4 and win_right >= 0:
        mask &= ahead <= win_right
    return [
        (i // block_q, j // block_kv)
        for i in range(0, seq_q, block_q)
        for j in range(0, seq_kv, block_kv)
        if mask[i:i + block_q, j:j + block_kv].any()
    ]
