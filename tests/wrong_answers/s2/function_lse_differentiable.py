# flashdojo: exercise=s2-function check=s2-function.lse misconception=lse-differentiable
"""softmax_lse is not marked, so autograd believes that it has a gradient."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.kw = dict(scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **ctx.kw)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        return flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, **ctx.kw) + (None,) * 6
