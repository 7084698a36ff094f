# flashdojo: exercise=s2-varlen check=s2-varlen.borders misconception=varlen-query-borders-for-keys
"""cu_seqlens_q cuts the keys too."""
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype)
    lse = torch.full((q.shape[1], q.shape[0]), float("inf"))
    cu = cu_seqlens_q.tolist()
    for start, end in zip(cu[:-1], cu[1:]):
        kk, vv = k[start:end], v[start:end]
        if end == start or len(kk) == 0:
            continue
        o, l = flash_attention_forward(q[start:end].permute(1, 0, 2)[None], kk.permute(1, 0, 2)[None], vv.permute(1, 0, 2)[None],
                                       scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        out[start:end] = o[0].permute(1, 0, 2)
        lse[:, start:end] = l[0]
    return out, lse
