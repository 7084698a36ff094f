# flashdojo: exercise=s2-function check=s2-function.values misconception=state-between-calls
"""Tensors are kept in a class attribute: a second layer overwrites those of the first."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    saved = None

    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        kw = dict(scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        out, lse = flash_attention_forward(q, k, v, **kw)
        FlashAttentionFunction.saved = (q, k, v, out, lse, kw)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse, kw = FlashAttentionFunction.saved
        dq, dk, dv = flash_attention_backward(q, k, v, dout, out, lse, **kw)
        return dq, dk, dv, None, None, None, None, None, None
