# flashdojo: exercise=s2-backward
"""torch.utils.checkpoint recomputes and differentiates."""
import math

import torch
from torch.utils.checkpoint import checkpoint

def band(rows, cols, shift, mask_mode, win_left, win_right):
    """True where the query may look."""
    gap = cols[None, :] - rows[:, None] - shift
    seen = torch.ones(gap.shape, dtype=torch.bool)
    if mask_mode == 3:
        seen = gap <= 0
    if mask_mode == 4:
        seen = seen & (gap >= -win_left if win_left >= 0 else seen) & (gap <= win_right if win_right >= 0 else seen)
    return seen


def tiles_with(gradients_of, q, k, v, dout, attn_out, softmax_lse, scale, options, block_q, block_kv):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    delta = (dout.to(wide) * attn_out.to(wide)).sum(-1, keepdim=True)
    group = q.shape[1] // k.shape[1]
    total = [torch.zeros(t.shape, dtype=wide) for t in (q, k, v)]
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, *options):
        r, c = slice(i * block_q, (i + 1) * block_q), slice(j * block_kv, (j + 1) * block_kv)
        rows, cols = torch.arange(q.shape[2])[r], torch.arange(k.shape[2])[c]
        seen = band(rows, cols, k.shape[2] - q.shape[2], *options)
        lse = softmax_lse[:, :, r, None].to(wide)

        def loss(qt, kt, vt):
            s = qt @ kt.repeat_interleave(group, 1).mT * scale
            p = torch.exp((s - lse).masked_fill(~seen, -math.inf))
            out = p @ vt.repeat_interleave(group, 1)
            return (out * dout[:, :, r].to(wide)).sum() - (p.sum(-1, keepdim=True) * delta[:, :, r]).sum()

        parts = gradients_of(loss, q[:, :, r].to(wide), k[:, :, c].to(wide), v[:, :, c].to(wide))
        for whole, where, part in zip(total, (r, c, c), parts):
            whole[:, :, where] += part
    return tuple(whole.to(t.dtype) for whole, t in zip(total, (q, k, v)))


def gradients_of(loss, *tensors):
    with torch.enable_grad():
        leaves = [torch.nn.Parameter(t.clone()) for t in tensors]
        checkpoint(loss, *leaves, use_reentrant=False).backward()
    return [leaf.grad for leaf in leaves]


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    options = (mask_mode, win_left, win_right)
    return tiles_with(gradients_of, q, k, v, dout, attn_out, softmax_lse, scale, options, block_q, block_kv)
