# flashdojo: exercise=s2-function
"""A factory instead of a class: apply goes through standard attention and its graph."""
import torch


def differentiable(q, k, v, scale, mask_mode, win_left, win_right):
    group = q.shape[1] // k.shape[1]
    s = q.float() @ k.float().repeat_interleave(group, 1).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    gap = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None] - (k.shape[2] - q.shape[2])
    hide = (gap > (0 if mask_mode == 3 else win_right)) if mask_mode == 3 or (mask_mode == 4 and win_right >= 0) else gap != gap
    hide = hide | (gap < -win_left) if mask_mode == 4 and win_left >= 0 else hide
    p = torch.softmax(s.masked_fill(hide, -1e30), -1).masked_fill(hide, 0.0)
    return (p @ v.float().repeat_interleave(group, 1)).to(q.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @classmethod
    def apply(cls, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        out, lse = flash_attention_forward(q.detach(), k.detach(), v.detach(), scale=scale, mask_mode=mask_mode,
                                           win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        graph = differentiable(q, k, v, scale, mask_mode, win_left, win_right)
        return out + graph - graph.detach(), lse
