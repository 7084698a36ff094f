# flashdojo: exercise=s3-forward check=s3-forward.causal misconception=metadata-mismatch also=layout-ignored
"""The plan takes the query's length for the keys'."""
import cann_ops_transformer as ops
import torch


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    axes = {letter: place for place, letter in enumerate(layout)}
    batch, heads, dim = q.shape[0], q.shape[axes["N"]], q.shape[3]
    kv_heads, length, kv_length = k.shape[axes["N"]], q.shape[axes["S"]], k.shape[axes["S"]]
    plan = ops.flash_attn_metadata(
        heads, kv_heads, dim, batch_size=batch, max_seqlen_q=length, max_seqlen_kv=length,
        mask_mode=mask_mode, win_left=win_left, win_right=win_right, layout_q=layout, layout_kv=layout, layout_out=layout,
    )
    mask = None
    if mask_mode != 0:
        rows = torch.arange(2048, device=q.device)
        mask = (rows[None, :] > rows[:, None]).to(torch.int8)
    out, lse = ops.flash_attn(
        q, k.contiguous(), v.contiguous(), attn_mask=mask, metadata=plan, softmax_scale=scale, mask_mode=mask_mode,
        win_left=win_left, win_right=win_right, max_seqlen_q=length, max_seqlen_kv=kv_length,
        layout_q=layout, layout_kv=layout, layout_out=layout, return_softmax_lse=True,
    )
    return out, lse
