# flashdojo: exercise=s2-function
"""backward runs forward again under enable_grad and asks autograd."""
import torch


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.options = {"scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right, "block_q": block_q, "block_kv": block_kv}
        ctx.save_for_backward(q, k, v)
        out, lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            out, _ = flash_attention_forward(*leaves, **ctx.options)
        return (*torch.autograd.grad(out, leaves, dout), None, None, None, None, None, None)
