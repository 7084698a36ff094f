# flashdojo: exercise=s2-backward check=s2-backward.values misconception=gradient-overwritten
"""dK and dV of a tile are set, not added to."""
import math
import torch


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    G = N1 // N2
    scale = 1 / math.sqrt(D) if scale is None else scale
    qg, og, gg = (t.float().reshape(B, N2, G, S1, -1) for t in (q, attn_out, dout))
    lse = softmax_lse.reshape(B, N2, G, S1, 1)
    dq = torch.zeros_like(qg)
    dk, dv = torch.zeros(B, N2, S2, D), torch.zeros(B, N2, S2, Dv)
    for i in range(0, S1, block_q):
        r = slice(i, i + block_q)
        for j in range(0, S2, block_kv):
            c = slice(j, j + block_kv)
            kj, vj = k[:, :, None, c].float(), v[:, :, None, c].float()
            s = qg[..., r, :] @ kj.mT * scale
            gap = torch.arange(j, j + s.shape[-1]) - torch.arange(i, i + s.shape[-2])[:, None] - (S2 - S1)
            if mask_mode == 3:
                s = s.masked_fill(gap > 0, -math.inf)
            if mask_mode == 4 and win_left >= 0:
                s = s.masked_fill(gap < -win_left, -math.inf)
            if mask_mode == 4 and win_right >= 0:
                s = s.masked_fill(gap > win_right, -math.inf)
            p = torch.exp(s - lse[..., r, :])
            ds = p * (gg[..., r, :] @ vj.mT - (gg[..., r, :] * og[..., r, :]).sum(-1, keepdim=True)) * scale
            dq[..., r, :] += ds @ kj
            dk[:, :, c] = (ds.mT @ qg[..., r, :]).sum(2)
            dv[:, :, c] = (p.mT @ gg[..., r, :]).sum(2)
    return dq.reshape(q.shape).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
