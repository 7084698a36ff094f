# flashdojo: exercise=s3-varlen check=s3-varlen.scale misconception=scale-ignored
"""The scale is always 1/sqrt(D)."""
import cann_ops_transformer as ops
import torch


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    bounds = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_kv": cu_seqlens_kv}
    same = {"mask_mode": mask_mode, "layout_q": "TND", "layout_kv": "TND", "layout_out": "TND"}
    plan = ops.flash_attn_metadata(
        q.shape[1], k.shape[1], q.shape[2], win_left=-1, win_right=-1, **bounds, **same
    )
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    out, lse = ops.flash_attn(
        q, k, v, attn_mask=mask, metadata=plan, softmax_scale=q.shape[2] ** -0.5, return_softmax_lse=True, **bounds, **same
    )
    return out, lse
