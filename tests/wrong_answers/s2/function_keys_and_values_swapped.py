# flashdojo: exercise=s2-function check=s2-function.values misconception=gradient-order
"""backward returns dq, dv, dk."""
from torch.autograd import Function


class FlashAttentionFunction(Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.options = (scale, mask_mode, win_left, win_right, block_q, block_kv)
        o, lse = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, _):
        scale, mask_mode, win_left, win_right, block_q, block_kv = ctx.options
        q, k, v, o, lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(q, k, v, do, o, lse, scale=scale, mask_mode=mask_mode, win_left=win_left,
                                              win_right=win_right, block_q=block_q, block_kv=block_kv)
        return (dq, dv, dk) + (None,) * 6
