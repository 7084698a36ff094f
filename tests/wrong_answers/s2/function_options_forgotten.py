# flashdojo: exercise=s2-function check=s2-function.options misconception=function-options-lost
"""forward gets mask and scale, backward runs with the defaults."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        out, lse = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left,
                                           win_right=win_right, block_q=block_q, block_kv=block_kv)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(q, k, v, dout, out, lse)
        return dq, dk, dv, None, None, None, None, None, None
