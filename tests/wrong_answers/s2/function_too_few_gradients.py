# flashdojo: exercise=s2-function check=s2-function.values misconception=function-gradient-count
"""One gradient per tensor, none for the options."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.args = {"scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right, "block_q": block_q, "block_kv": block_kv}
        out, lse = flash_attention_forward(q, k, v, **ctx.args)
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        dq, dk, dv = flash_attention_backward(*ctx.saved_tensors[:3], dout, *ctx.saved_tensors[3:], **ctx.args)
        return dq, dk, dv
