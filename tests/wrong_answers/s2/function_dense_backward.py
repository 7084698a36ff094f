# flashdojo: exercise=s2-function check=s2-function.memory misconception=quadratic-memory
"""The forward is tiled, the backward writes P and dP out in full."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.options = dict(
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv
        )
        out, lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        scale = ctx.options["scale"]
        if scale is None:
            scale = q.shape[-1] ** -0.5
        p = torch.exp(q @ k.mT * scale - lse.unsqueeze(-1))
        ds = p * (dout @ v.mT - (dout * out).sum(-1, keepdim=True))
        return scale * ds @ k, scale * ds.mT @ q, p.mT @ dout, None, None, None, None, None, None
