# flashdojo: exercise=s2-tiles check=s2-tiles.causal-offset,s2-tiles.window misconception=causal-alignment
# idea: Both limits are clamped into the key range, so a row of tiles that sees no key still gets tile 0.
def _clamp(x, lo, hi):
    return max(lo, min(x, hi))


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    n_rows = -(-seq_q // block_q)
    shift = seq_kv - seq_q
    result = []
    for i in range(n_rows):
        q_lo = i * block_q
        q_hi = min(seq_q, q_lo + block_q) - 1
        k_lo, k_hi = 0, seq_kv - 1
        if mask_mode == 3 or (mask_mode == 4 and win_right >= 0):
            reach = 0 if mask_mode == 3 else win_right
            k_hi = _clamp(q_hi + shift + reach, 0, seq_kv - 1)
        if mask_mode == 4 and win_left >= 0:
            k_lo = _clamp(q_lo + shift - win_left, 0, seq_kv - 1)
        result.extend((i, j) for j in range(k_lo // block_kv, k_hi // block_kv + 1))
    return result
