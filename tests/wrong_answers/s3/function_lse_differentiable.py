# flashdojo: exercise=s3-function check=s3-function.lse misconception=lse-differentiable
"""softmax_lse is left differentiable."""
import cann_ops_transformer as ops
import torch


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        s, n = (1, 2) if layout == "BSND" else (2, 1)
        lengths = {"max_seqlen_q": q.shape[s], "max_seqlen_kv": k.shape[s]}
        layouts = {"layout_q": layout, "layout_kv": layout, "layout_out": layout}
        mask = {"mask_mode": mask_mode, "win_left": win_left, "win_right": win_right}
        plan = ops.flash_attn_metadata(
            q.shape[n], k.shape[n], q.shape[-1], batch_size=q.shape[0], is_grad_enabled=True, **lengths, **layouts, **mask
        )
        template = None
        if mask_mode:
            template = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1)
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out, lse = ops.flash_attn(
            q, k, v, attn_mask=template, metadata=plan, softmax_scale=scale, return_softmax_lse=True,
            **lengths, **layouts, **mask,
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.rest = {"attn_mask": template, "metadata": plan, **lengths, **layouts, **mask}
        ctx.scale = scale
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = ops.flash_attn_grad(q, k, v, dout, out, lse, softmax_scale=ctx.scale, **ctx.rest)
        return dq, dk, dv, None, None, None, None, None
