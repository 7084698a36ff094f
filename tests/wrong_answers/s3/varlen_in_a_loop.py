# flashdojo: exercise=s3-varlen check=s3-varlen.values misconception=varlen-many-calls
"""One call for every sequence."""
import torch


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    out, lse = torch.zeros_like(q), torch.full((q.shape[1], q.shape[0]), torch.inf, device=q.device)
    for b in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        keys = slice(int(cu_seqlens_kv[b]), int(cu_seqlens_kv[b + 1]))
        if rows.start < rows.stop and keys.start < keys.stop:
            o, s = npu_flash_attention(q[rows][None], k[keys][None], v[keys][None], scale=scale, mask_mode=mask_mode)
            out[rows], lse[:, rows] = o[0], s[0]
    return out, lse
