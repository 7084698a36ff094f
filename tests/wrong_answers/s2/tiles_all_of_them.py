# flashdojo: exercise=s2-tiles check=s2-tiles.causal,s2-tiles.window misconception=tiles-mask-ignored
"""Masks are the kernel's business: every tile is returned."""
import itertools
import math


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    return list(itertools.product(range(math.ceil(seq_q / block_q)), range(math.ceil(seq_kv / block_kv))))
