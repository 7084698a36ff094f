# flashdojo: exercise=s2-varlen check=s2-varlen.memory misconception=quadratic-memory
"""One T1 x T2 matrix for the whole pack, with a mask that keeps the sequences apart."""
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    T1, T2, g = q.shape[0], k.shape[0], q.shape[1] // k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    cq, ck = cu_seqlens_q.long(), cu_seqlens_kv.long()
    sq = torch.repeat_interleave(torch.arange(len(cq) - 1), cq.diff())
    sk = torch.repeat_interleave(torch.arange(len(ck) - 1), ck.diff())
    hidden = sq[:, None] != sk
    if mask_mode == 3:
        hidden |= torch.arange(T2) - ck[1:][sk] > (torch.arange(T1) - cq[1:][sq])[:, None]
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    scores = scores.masked_fill(hidden, float("-inf"))
    m = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    p = torch.exp(scores - m)
    total = p.sum(-1, keepdim=True)
    out = torch.einsum("hqk,khd->qhd", p / total.clamp(min=1e-30), v)
    lse = (m + total.log()).masked_fill(total == 0, float("inf"))
    return out, lse.squeeze(-1)
