# flashdojo: exercise=s2-forward check=s2-forward.small misconception=small-lengths
"""The last tile is moved back to be whole and repeated keys are hidden: below one tile it starts before 0."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    g = N1 // N2
    scale = D ** -0.5 if scale is None else scale
    t = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros(B, N1, S1, Dv, dtype=q.dtype)
    lse = torch.full((B, N1, S1), math.inf)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i in sorted({i for i, _ in tiles}):
        rows = torch.arange(i * block_q, min((i + 1) * block_q, S1))
        qi = q[:, :, rows].to(t).reshape(B, N2, g * len(rows), D)
        m = torch.full((B, N2, g * len(rows), 1), -math.inf, dtype=t)
        state = (m, torch.zeros_like(m), torch.zeros(B, N2, g * len(rows), Dv, dtype=t))
        for j in [j for r, j in tiles if r == i]:
            start = min(j * block_kv, S2 - block_kv)
            cols = torch.arange(start, start + block_kv)
            s = qi @ k[:, :, start:start + block_kv].to(t).mT * scale
            gap = cols - rows.repeat(g)[:, None] - (S2 - S1)
            s = s.masked_fill(cols < j * block_kv, -math.inf)
            if mask_mode == 3:
                s = s.masked_fill(gap > 0, -math.inf)
            if mask_mode == 4 and win_left >= 0:
                s = s.masked_fill(gap < -win_left, -math.inf)
            if mask_mode == 4 and win_right >= 0:
                s = s.masked_fill(gap > win_right, -math.inf)
            state = online_softmax_update(state, s, v[:, :, start:start + block_kv])
        m, l, acc = state
        seen = l > 0
        out[:, :, rows] = torch.where(seen, acc / l, 0.0).reshape(B, N1, len(rows), Dv).to(q.dtype)
        lse[:, :, rows] = torch.where(seen, m + l.log(), math.inf).reshape(B, N1, len(rows)).float()
    return out, lse
