# flashdojo: exercise=s2-tiles check=s2-tiles.causal-offset,s2-tiles.window misconception=causal-top-left
"""Key j is visible when j <= i, with no regard to S2 - S1."""
def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left = win_left if mask_mode == 4 else -1
    right = 0 if mask_mode == 3 else win_right if mask_mode == 4 else -1
    result = []
    for i, q0 in enumerate(range(0, seq_q, block_q)):
        q1 = min(q0 + block_q, seq_q) - 1
        lo = max(0, q0 - left) if left != -1 else 0
        hi = min(seq_kv - 1, q1 + right) if right != -1 else seq_kv - 1
        if lo <= hi:
            result += [(i, j) for j in range(lo // block_kv, hi // block_kv + 1)]
    return result
