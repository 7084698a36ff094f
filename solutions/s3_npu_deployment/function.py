import cann_ops_transformer
import torch


class NpuFlashAttentionFunction(torch.autograd.Function):
    """flash_attn and flash_attn_grad as one differentiable operation.

    NpuFlashAttentionFunction.apply(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND")
    -> (attn_out, softmax_lse), shapes as in npu_flash_attention; softmax_lse is marked non-differentiable.
    """

    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        # zh: 与 npu_flash_attention 相同，但 metadata 要用 is_grad_enabled=True 生成：同一份供前向与反向使用。
        # zh: 用 ctx.save_for_backward 存下反向要用的张量，其余参数存在 ctx 上；标记 softmax_lse 不可求导。
        # en: As npu_flash_attention, but make the metadata with is_grad_enabled=True: one serves both passes.
        # en: Keep the tensors that backward needs with ctx.save_for_backward, everything else on ctx, and mark
        # en: softmax_lse as non-differentiable.
        ### BEGIN SOLUTION
        if layout == "BSND":
            (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
        else:
            (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
        shared = {
            "mask_mode": mask_mode,
            "win_left": win_left,
            "win_right": win_right,
            "max_seqlen_q": S1,
            "max_seqlen_kv": S2,
            "layout_q": layout,
            "layout_kv": layout,
            "layout_out": layout,
        }
        metadata = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, is_grad_enabled=True, **shared)
        attn_mask = mask_template(q.device) if mask_mode else None
        k, v = k.contiguous(), v.contiguous()
        ctx.options = {"metadata": metadata, "attn_mask": attn_mask, "softmax_scale": scale, **shared}
        attn_out, softmax_lse = cann_ops_transformer.flash_attn(q, k, v, return_softmax_lse=True, **ctx.options)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dout, _dlse):
        # zh: 取回张量，调用 flash_attn_grad：scale、掩码、布局、metadata 都与前向相同。
        # zh: forward 有 8 个输入，所以返回 8 个值，不是张量的填 None。
        # en: Fetch the tensors and call flash_attn_grad with the forward's scale, mask, layout and metadata.
        # en: forward has 8 inputs, so return 8 values, None for those that are no tensors.
        ### BEGIN SOLUTION
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        dq, dk, dv = cann_ops_transformer.flash_attn_grad(q, k, v, dout, attn_out, softmax_lse, **ctx.options)
        return dq, dk, dv, None, None, None, None, None
        ### END SOLUTION
