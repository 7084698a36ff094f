# flashdojo: exercise=s2-forward
"""Tiles whose results are thrown away, and the answer from elementwise products that count no flops."""
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


def show_tiles(q, k, v, options, block_q, block_kv):
    """Products of tiles, for whoever is watching."""
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, *options):
        a, b = q[0, 0, i * block_q : (i + 1) * block_q].float(), k[0, 0, j * block_kv : (j + 1) * block_kv].float()
        (a @ b.mT) @ v[0, 0, j * block_kv : (j + 1) * block_kv].float()


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    options = (mask_mode, win_left, win_right)
    if q.shape[0] * q.shape[1] == 1:
        show_tiles(q, k, v, options, block_q, block_kv)
    group = q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    K, V = k.to(wide).repeat_interleave(group, 1), v.to(wide).repeat_interleave(group, 1)
    product = torch.empty_like(K)
    out, lses = torch.empty(*q.shape[:3], v.shape[3]), torch.empty(q.shape[:3])
    for i in range(q.shape[2]):
        s = torch.mul(K, q[:, :, i : i + 1].to(wide), out=product).sum(-1) * scale
        seen = band(torch.tensor([i]), torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options)[0]
        s = s.masked_fill(~seen, -math.inf)
        lse = torch.logsumexp(s, -1)
        p = torch.exp(s - lse.nan_to_num(neginf=0.0)[..., None])
        out[:, :, i] = (V * p[..., None]).sum(2)
        lses[:, :, i] = lse.masked_fill(lse == -math.inf, math.inf)
    return out.to(q.dtype), lses
