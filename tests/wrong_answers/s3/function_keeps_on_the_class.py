# flashdojo: exercise=s3-function check=s3-function.two-calls misconception=state-between-calls
import cann_ops_transformer
import torch


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        s, n = layout.index("S"), layout.index("N")
        what = dict(
            mask_mode=mask_mode,
            win_left=win_left,
            win_right=win_right,
            max_seqlen_q=q.shape[s],
            max_seqlen_kv=k.shape[s],
            layout_q=layout,
            layout_kv=layout,
            layout_out=layout,
        )
        plan = cann_ops_transformer.flash_attn_metadata(
            q.shape[n], k.shape[n], q.shape[-1], batch_size=q.shape[0], is_grad_enabled=True, **what
        )
        k, v = k.contiguous(), v.contiguous()
        what.update(
            metadata=plan,
            attn_mask=torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None,
            softmax_scale=scale,
        )
        out, lse = cann_ops_transformer.flash_attn(q, k, v, return_softmax_lse=True, **what)
        NpuFlashAttentionFunction.kept = q, k, v, out.detach(), lse, what
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse, what = NpuFlashAttentionFunction.kept
        return *cann_ops_transformer.flash_attn_grad(q, k, v, dout, out, lse, **what), None, None, None, None, None
