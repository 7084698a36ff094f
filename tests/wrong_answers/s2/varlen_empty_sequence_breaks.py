# flashdojo: exercise=s2-varlen check=s2-varlen.empty misconception=varlen-empty-sequence
"""A sequence without keys has no maximum."""
import math
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    g = q.shape[1] // k.shape[1]
    outs, lses = [], []
    for a, b, c, d in zip(cu_seqlens_q[:-1], cu_seqlens_q[1:], cu_seqlens_kv[:-1], cu_seqlens_kv[1:]):
        qs, ks, vs = q[a:b].transpose(0, 1), k[c:d].transpose(0, 1).repeat_interleave(g, 0), v[c:d].transpose(0, 1).repeat_interleave(g, 0)
        o_rows, l_rows = [], []
        for r in range(0, qs.shape[1], block_q):
            m = l = acc = None
            for t in range(0, ks.shape[1], block_kv):
                s = qs[:, r:r + block_q] @ ks[:, t:t + block_kv].mT * scale
                if mask_mode == 3:
                    i = torch.arange(r, r + s.shape[1])[:, None] + ks.shape[1] - qs.shape[1]
                    s = s.masked_fill(torch.arange(t, t + s.shape[2]) > i, -1e30)
                m_new = s.max(-1, keepdim=True).values if m is None else torch.maximum(m, s.max(-1, keepdim=True).values)
                p = torch.exp(s - m_new)
                if m is None:
                    l, acc = p.sum(-1, keepdim=True), p @ vs[:, t:t + block_kv]
                else:
                    f = torch.exp(m - m_new)
                    l, acc = f * l + p.sum(-1, keepdim=True), f * acc + p @ vs[:, t:t + block_kv]
                m = m_new
            o_rows.append(acc / l)
            l_rows.append((m + l.log())[..., 0])
        outs.append(torch.cat(o_rows, 1).transpose(0, 1))
        lses.append(torch.cat(l_rows, 1))
    return torch.cat(outs).to(q.dtype), torch.cat(lses, 1).float()
