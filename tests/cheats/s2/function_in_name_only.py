# flashdojo: exercise=s2-function
"""A class whose apply is the differentiable forward: autograd does the rest."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def apply(q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        with torch.enable_grad():
            out, lse = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left,
                                               win_right=win_right, block_q=block_q, block_kv=block_kv)
        return out, lse.detach()
