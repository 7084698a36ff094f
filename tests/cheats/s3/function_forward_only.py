# flashdojo: exercise=s3-function
"""The forward operator, with gradients by hand."""
import torch


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        out, lse = npu_flash_attention(
            q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, layout=layout
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale, ctx.layout = scale, layout
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        turn = (lambda x: x.transpose(1, 2)) if ctx.layout == "BSND" else (lambda x: x)
        q, k, v, out, dout = (turn(x).float() for x in (*ctx.saved_tensors[:4], dout))
        group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        p = torch.exp(q @ k.mT * ctx.scale - ctx.saved_tensors[4][..., None])
        ds = p * (dout @ v.mT - (dout * out).sum(-1, keepdim=True))
        dq, dk, dv = ctx.scale * ds @ k, ctx.scale * ds.mT @ q, p.mT @ dout
        dk, dv = (x.unflatten(1, (kv_heads, group)).sum(2) for x in (dk, dv))
        return *(turn(x).to(ctx.saved_tensors[0].dtype) for x in (dq, dk, dv)), None, None, None, None, None
