# flashdojo: exercise=s2-function check=s2-function.options misconception=function-options-lost
# idea: The window sizes are not handed to the backward, which then works with an unlimited window.
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        o, l = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left,
                                       win_right=win_right, block_q=block_q, block_kv=block_kv)
        ctx.save_for_backward(q, k, v, o, l)
        ctx.mark_non_differentiable(l)
        ctx.scale = scale
        ctx.mask_mode = mask_mode
        ctx.block_q = block_q
        ctx.block_kv = block_kv
        return o, l

    @staticmethod
    def backward(ctx, do, _):
        q, k, v, o, l = ctx.saved_tensors
        grads = flash_attention_backward(q, k, v, do, o, l, scale=ctx.scale, mask_mode=ctx.mask_mode,
                                         block_q=ctx.block_q, block_kv=ctx.block_kv)
        return tuple(grads) + (None,) * 6
