# flashdojo: exercise=s2-forward
"""The whole matrix in numpy."""
import math

import torch
import numpy as np


def band(rows, cols, shift, mask_mode, win_left, win_right):
    """True where the query may look."""
    gap = cols[None, :] - rows[:, None] - shift
    seen = torch.ones(gap.shape, dtype=torch.bool)
    if mask_mode == 3:
        seen = gap <= 0
    if mask_mode == 4:
        seen = seen & (gap >= -win_left if win_left >= 0 else seen) & (gap <= win_right if win_right >= 0 else seen)
    return seen


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    options = (mask_mode, win_left, win_right)
    group = q.shape[1] // k.shape[1]
    Q, K, V = (np.asarray(t.double()) for t in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    s = Q @ K.swapaxes(-1, -2) * scale
    s[..., ~np.asarray(band(torch.arange(q.shape[2]), torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options))] = -np.inf
    m = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(m), 0, m))
    z = p.sum(-1, keepdims=True)
    lse = np.where(z > 0, m + np.log(np.where(z > 0, z, 1)), np.inf)[..., 0]
    return torch.tensor(p @ V / np.where(z > 0, z, 1)).to(q.dtype), torch.tensor(lse).float()
