# flashdojo: exercise=s2-function check=s2-function.gradcheck misconception=float64-lost
"""Everything is cast to float32 on the way in, float64 included."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.options = dict(
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv
        )
        dtype = q.dtype
        q, k, v = q.float(), k.float(), v.float()
        out, lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out.to(dtype), lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        grads = flash_attention_backward(q, k, v, dout.float(), out, lse, **ctx.options)
        return *[g.to(dout.dtype) for g in grads], None, None, None, None, None, None
