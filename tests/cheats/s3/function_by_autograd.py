# flashdojo: exercise=s3-function
"""Forward by hand, backward by autograd."""

import math

import torch


def by_hand(q, k, v, scale, mask_mode, win_left, win_right):
    """BNSD, the whole score matrix in float32."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    scores = q.float() @ k.mT * scale
    distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    distance = distance - (k.shape[2] - q.shape[2])
    left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (weights @ v).to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        ctx.save_for_backward(q, k, v)
        ctx.rest = scale, mask_mode, win_left, win_right, layout
        out, lse = NpuFlashAttentionFunction.compute(q, k, v, *ctx.rest)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def compute(q, k, v, scale, mask_mode, win_left, win_right, layout):
        q, k, v = (x.transpose(1, 2) if layout == "BSND" else x for x in (q, k, v))
        out, lse = by_hand(q, k, v, scale, mask_mode, win_left, win_right)
        return (out.transpose(1, 2) if layout == "BSND" else out).contiguous(), lse

    @staticmethod
    def backward(ctx, dout, _):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            out, _ = NpuFlashAttentionFunction.compute(*leaves, *ctx.rest)
            return (*torch.autograd.grad(out, leaves, dout), None, None, None, None, None)
