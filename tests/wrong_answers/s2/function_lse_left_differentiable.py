# flashdojo: exercise=s2-function check=s2-function.lse misconception=lse-differentiable
# idea: softmax_lse is never marked non-differentiable, so it claims a gradient that backward then drops.
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        out, lse = flash_attention_forward(
            q, k, v,
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.args = (scale, mask_mode, win_left, win_right, block_q, block_kv)
        return out, lse

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale, mask_mode, win_left, win_right, block_q, block_kv = ctx.args
        dq, dk, dv = flash_attention_backward(
            q, k, v, grad_out, out, lse,
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )
        return dq, dk, dv, None, None, None, None, None, None
