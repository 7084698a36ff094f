# flashdojo: exercise=s3-function
import cann_ops_transformer
import torch


def plain(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    if layout == "BSND":
        (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
    else:
        (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
    what = dict(
        mask_mode=mask_mode,
        win_left=win_left,
        win_right=win_right,
        max_seqlen_q=S1,
        max_seqlen_kv=S2,
        layout_q=layout,
        layout_kv=layout,
        layout_out=layout,
    )
    plan = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, is_grad_enabled=True, **what)
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    return cann_ops_transformer.flash_attn(
        q,
        k.contiguous(),
        v.contiguous(),
        attn_mask=mask,
        metadata=plan,
        softmax_scale=scale,
        return_softmax_lse=True,
        **what,
    )


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *rest):
        ctx.save_for_backward(q, k, v)
        ctx.rest = rest
        out, lse = plain(q, k, v, *rest)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            out, _ = plain(*leaves, *ctx.rest)
            return (*torch.autograd.grad(out, leaves, dout), *[None] * len(ctx.rest))
