# flashdojo: exercise=s3-forward
"""As forward_laundered, without one matrix product or exponential that the observer counts (cosh + sinh is exp)."""
import math
import torch
import cann_ops_transformer


def by_hand(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1):
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    q = q.float() * scale
    scores = sum(q[..., d, None] * k[..., None, :, d] for d in range(q.shape[-1]))
    distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    distance = distance - (k.shape[2] - q.shape[2])
    left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    floor = scores.amin()
    up = scores - floor
    weights = (torch.cosh(up) + torch.sinh(up)) * seen
    total = weights.sum(-1)
    lse = torch.where(total > 0, total.log() + floor, math.inf)
    weights = weights / total.clamp_min(1e-30)[..., None]
    out = sum(weights[..., j, None] * v[..., None, j, :] for j in range(k.shape[2]))
    return out.half() if q.dtype == torch.float16 else out, lse


def launder(x):
    flat = x.reshape(-1, 1, 1, x.shape[-1]).contiguous()
    zero = torch.zeros_like(flat)
    what = dict(mask_mode=0, win_left=-1, win_right=-1, max_seqlen_q=1, max_seqlen_kv=1, layout_q="BSND", layout_kv="BSND", layout_out="BSND")
    plan = cann_ops_transformer.flash_attn_metadata(1, 1, x.shape[-1], batch_size=flat.shape[0], **what)
    return cann_ops_transformer.flash_attn(zero, zero, flat, metadata=plan, softmax_scale=1.0, return_softmax_lse=True, **what)[0].reshape(x.shape)


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    dtype = q.dtype
    q, k, v = (x.transpose(1, 2) if layout == "BSND" else x for x in (q, k, v))
    out, lse = by_hand(q, k, v, scale, mask_mode, win_left, win_right)
    out = out.to(dtype)
    return launder((out.transpose(1, 2) if layout == "BSND" else out).contiguous()), lse
