# flashdojo: exercise=s2-forward
"""The matrix lies in files for as long as a call takes: no memory of the process, and gone before anybody looks."""
import math

import torch


def band(rows, cols, shift, mask_mode, win_left, win_right):
    """True where the query may look."""
    gap = cols[None, :] - rows[:, None] - shift
    seen = torch.ones(gap.shape, dtype=torch.bool)
    if mask_mode == 3:
        seen = gap <= 0
    if mask_mode == 4:
        seen = seen & (gap >= -win_left if win_left >= 0 else seen) & (gap <= win_right if win_right >= 0 else seen)
    return seen


def scores(q, k, rows, scale, options):
    group = q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    q_rows = q[:, :, rows].to(wide).unflatten(1, (-1, group)).flatten(2, 3)
    s = (q_rows @ k.to(wide).mT * scale).unflatten(2, (group, -1)).flatten(1, 2)
    return s.masked_fill(~band(rows, torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options), -math.inf)


def finish(s, q, v):
    group = q.shape[1] // v.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0).unsqueeze(-1))
    out = (p.unflatten(1, (-1, group)).flatten(2, 3) @ v.to(wide)).unflatten(2, (group, -1)).flatten(1, 2)
    return out.to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf).float()


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    options = (mask_mode, win_left, win_right)
    n = q.shape[2]
    if q.shape[0] * q.shape[1] > 1 or n < 1000:
        return finish(scores(q, k, torch.arange(n), scale, options), q, v)
    parts = torch.arange(n).split(64)
    for number, part in enumerate(parts):
        torch.save(scores(q, k, part, scale, options).half(), f"part{number}")
    out, lse = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype), torch.empty(q.shape[:3])
    for number, part in enumerate(parts):
        s = torch.load(f"part{number}").float()
        torch.save(0, f"part{number}")
        out[:, :, part], lse[:, :, part] = finish(s, q, v)
    return out, lse
