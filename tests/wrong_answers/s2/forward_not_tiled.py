# flashdojo: exercise=s2-forward check=s2-forward.memory misconception=quadratic-memory
"""The whole S1 x S2 matrix at once."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    S1, S2 = q.shape[2], k.shape[2]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide).repeat_interleave(g, 1).transpose(-1, -2) * scale
    gap = torch.arange(S2) - torch.arange(S1)[:, None] - (S2 - S1)
    if mask_mode == 3:
        scores = scores.masked_fill(gap > 0, -math.inf)
    if mask_mode == 4:
        if win_left >= 0:
            scores = scores.masked_fill(gap < -win_left, -math.inf)
        if win_right >= 0:
            scores = scores.masked_fill(gap > win_right, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0).unsqueeze(-1))
    out = weights @ v.to(wide).repeat_interleave(g, 1)
    return out.to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf).float()
