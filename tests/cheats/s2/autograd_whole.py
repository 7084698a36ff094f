# flashdojo: exercise=s2-backward
"""autograd on standard attention."""
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


def plain(q, k, v, scale, options):
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).mT * scale
    seen = band(torch.arange(q.shape[2]), torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options)
    s = s.masked_fill(~seen, -1e30)
    p = torch.softmax(s, -1) * seen
    return p @ v.repeat_interleave(group, 1)


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with torch.enable_grad():
        leaves = [t.detach().float().requires_grad_() for t in (q, k, v)]
        out = plain(*leaves, scale, (mask_mode, win_left, win_right))
    return tuple(g.to(t.dtype) for g, t in zip(torch.autograd.grad(out, leaves, dout.float()), (q, k, v)))
