# flashdojo: exercise=s2-backward check=s2-backward.memory misconception=quadratic-memory
"""The whole P and dP: right gradients, N x N memory."""
import math
import torch


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    S1, S2 = q.shape[2], k.shape[2]
    G = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    t = torch.promote_types(q.dtype, torch.float32)
    qf, gf, of = q.to(t), dout.to(t), attn_out.to(t)
    kf, vf = k.to(t).repeat_interleave(G, 1), v.to(t).repeat_interleave(G, 1)
    S = torch.matmul(qf, kf.transpose(-2, -1)) * scale
    gap = torch.arange(S2) - torch.arange(S1)[:, None] - (S2 - S1)
    if mask_mode == 3:
        S = S.masked_fill(gap > 0, -math.inf)
    if mask_mode == 4:
        if win_left >= 0:
            S = S.masked_fill(gap < -win_left, -math.inf)
        if win_right >= 0:
            S = S.masked_fill(gap > win_right, -math.inf)
    P = torch.exp(S - softmax_lse.to(t).unsqueeze(-1))
    dP = torch.matmul(gf, vf.transpose(-2, -1))
    dS = P * (dP - (gf * of).sum(-1, keepdim=True)) * scale
    dq = torch.matmul(dS, kf)
    dk = torch.matmul(dS.transpose(-2, -1), qf).unflatten(1, (-1, G)).sum(2)
    dv = torch.matmul(P.transpose(-2, -1), gf).unflatten(1, (-1, G)).sum(2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
