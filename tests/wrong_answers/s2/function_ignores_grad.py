# flashdojo: exercise=s2-function check=s2-function.values misconception=dout-ignored
"""backward assumes that the incoming gradient is all ones."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.kw = dict(scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        out, lse = flash_attention_forward(q, k, v, **ctx.kw)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, grad_output, _):
        q, k, v, out, lse = ctx.saved_tensors
        grads = flash_attention_backward(q, k, v, torch.ones_like(out), out, lse, **ctx.kw)
        return *grads, None, None, None, None, None, None
