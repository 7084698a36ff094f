# flashdojo: exercise=s2-function check=s2-function.partial misconception=function-partial-gradients
"""When q needs no gradient, nothing does."""
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
        if not ctx.needs_input_grad[0]:
            return (None,) * 9
        grads = flash_attention_backward(*ctx.saved_tensors[:3], dout, *ctx.saved_tensors[3:], **ctx.options)
        return *grads, None, None, None, None, None, None
