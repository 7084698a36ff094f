# flashdojo: exercise=s3-varlen
"""Sequence by sequence, by hand."""
import math

import torch


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    out, lse = torch.zeros_like(q), torch.full((q.shape[1], q.shape[0]), math.inf, device=q.device)
    group = q.shape[1] // k.shape[1]
    bounds = zip(cu_seqlens_q.tolist(), cu_seqlens_q.tolist()[1:], cu_seqlens_kv.tolist(), cu_seqlens_kv.tolist()[1:])
    for a, b, c, d in bounds:
        if a == b or c == d:
            continue
        keys, values = (x[c:d].float().repeat_interleave(group, dim=1) for x in (k, v))
        scores = torch.einsum("qnd,knd->nqk", q[a:b].float(), keys) * scale
        if mask_mode:
            scores += torch.full_like(scores, -math.inf).triu(1 + d - c - b + a)
        lse[:, a:b] = scores.logsumexp(-1)
        out[a:b] = torch.einsum("nqk,knd->qnd", scores.softmax(-1).nan_to_num(), values).to(q.dtype)
    return out, lse.masked_fill(lse == -math.inf, math.inf)
