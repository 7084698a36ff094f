# flashdojo: exercise=s2-varlen
"""Pads to a rectangle and computes the whole matrix of every sequence."""
import math

import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    """All sequences as one matrix [T1, T2] with a mask of blocks."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    owner = lambda cu, n: torch.searchsorted(cu[1:].long(), torch.arange(n), right=True)
    a, b = owner(cu_seqlens_q, q.shape[0]), owner(cu_seqlens_kv, k.shape[0])
    seen = a[:, None] == b[None, :]
    if mask_mode == 3:
        i = torch.arange(q.shape[0]) - cu_seqlens_q.long()[a] + (cu_seqlens_kv.diff() - cu_seqlens_q.diff()).long()[a]
        j = torch.arange(k.shape[0]) - cu_seqlens_kv.long()[b]
        seen = seen & (j[None, :] <= i[:, None])
    g = q.shape[1] // k.shape[1]
    s = torch.einsum("qhd,khd->hqk", q.float(), k.float().repeat_interleave(g, 1)) * scale
    s = s.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0)[..., None])
    out = torch.einsum("hqk,khd->qhd", p, v.float().repeat_interleave(g, 1))
    return out.to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)
