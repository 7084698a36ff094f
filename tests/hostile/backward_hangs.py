# flashdojo: exercise=s2-function stage=s2
"""The hang is in the backward pass."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        out = q.new_zeros(*q.shape[:3], v.shape[3])
        lse = torch.zeros(q.shape[:3])
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        while True:
            pass
