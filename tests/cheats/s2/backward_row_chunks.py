# flashdojo: exercise=s2-backward
"""Two query rows at a time against all keys, without the lse's help, and no key tiles."""
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


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group, options = q.shape[1] // k.shape[1], (mask_mode, win_left, win_right)
    wide = torch.promote_types(q.dtype, torch.float32)
    K, V = k.to(wide).repeat_interleave(group, 1), v.to(wide).repeat_interleave(group, 1)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(K), torch.zeros_like(V)
    for r in torch.arange(q.shape[2]).split(2):
        qr, gr, orr = q[:, :, r].to(wide), dout[:, :, r].to(wide), attn_out[:, :, r].to(wide)
        s = (qr @ K.mT * scale).masked_fill(~band(r, torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options), -math.inf)
        p = torch.exp(s - softmax_lse[:, :, r, None].to(wide))
        ds = p * (gr @ V.mT - (gr * orr).sum(-1, keepdim=True)) * scale
        dq[:, :, r] = (ds @ K).to(q.dtype)
        dk += ds.mT @ qr
        dv += p.mT @ gr
    return dq, dk.unflatten(1, (-1, group)).sum(2).to(k.dtype), dv.unflatten(1, (-1, group)).sum(2).to(v.dtype)
