# flashdojo: exercise=s2-forward check=s2-forward.values misconception=normalised-per-tile
"""Softmax in every tile, then the mean over the tiles."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, H, S1, D = q.shape
    S2 = k.shape[2]
    scale = 1 / math.sqrt(D) if scale is None else scale
    g = H // k.shape[1]
    out = torch.zeros(B, H, S1, v.shape[-1])
    lse = torch.full((B, H, S1), -math.inf)
    count = torch.zeros(B, H, S1, 1)
    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        a, b = i * block_q, min(S1, (i + 1) * block_q)
        c, d = j * block_kv, min(S2, (j + 1) * block_kv)
        s = q[:, :, a:b].float() @ k[:, :, c:d].float().repeat_interleave(g, 1).mT * scale
        rel = torch.arange(c, d) - torch.arange(a, b)[:, None] - (S2 - S1)
        if mask_mode == 3:
            s = s.masked_fill(rel > 0, -math.inf)
        if mask_mode == 4:
            if win_left >= 0:
                s = s.masked_fill(rel < -win_left, -math.inf)
            if win_right >= 0:
                s = s.masked_fill(rel > win_right, -math.inf)
        out[:, :, a:b] += torch.softmax(s, -1).nan_to_num(0.0) @ v[:, :, c:d].float().repeat_interleave(g, 1)
        count[:, :, a:b] += (s > -math.inf).any(-1, keepdim=True)
        lse[:, :, a:b] = torch.logaddexp(lse[:, :, a:b], torch.logsumexp(s, -1))
    out = out / count.clamp(min=1)
    return out.to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)
