import cann_ops_transformer
import torch


def npu_flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *,
    scale: float,
    mask_mode: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over packed sequences in layout TND, by one call of the operator.

    q [T1, N1, D], k and v [T2, N2, D], float16 or bfloat16 -> attn_out [T1, N1, D], softmax_lse [N1, T1] float32.
    cu_seqlens are int32 [B + 1] on the NPU: they begin with 0 and end with T1 (T2). A sequence may be empty on either
    side. mask_mode 0 or 3, within each sequence.
    """
    # zh: 布局都是 "TND"；cu_seqlens 既给 flash_attn_metadata，也给 flash_attn；batch_size 由它推出，不必传。
    # zh: 不要写循环：一次调用算完所有序列。
    # en: Every layout is "TND"; cu_seqlens go to flash_attn_metadata and to flash_attn, and give the batch size.
    # en: No loop: one call computes every sequence.
    ### BEGIN SOLUTION
    shared = {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_kv": cu_seqlens_kv,
        "mask_mode": mask_mode,
        "win_left": -1,
        "win_right": -1,
        "layout_q": "TND",
        "layout_kv": "TND",
        "layout_out": "TND",
    }
    metadata = cann_ops_transformer.flash_attn_metadata(q.shape[1], k.shape[1], q.shape[2], **shared)
    attn_mask = mask_template(q.device) if mask_mode else None
    return cann_ops_transformer.flash_attn(
        q, k, v, attn_mask=attn_mask, metadata=metadata, softmax_scale=scale, return_softmax_lse=True, **shared
    )
    ### END SOLUTION
