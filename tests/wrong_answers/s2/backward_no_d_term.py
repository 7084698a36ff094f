# flashdojo: exercise=s2-backward check=s2-backward.values misconception=d-term-missing
"""dS = P * dP: the softmax's own derivative is left out."""
import math
import torch


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2 = k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(D) if scale is None else scale
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    dq = torch.zeros(q.shape, dtype=work)
    dk = torch.zeros(k.shape, dtype=work)
    dv = torch.zeros(v.shape, dtype=work)
    for b in range(B):
        for h in range(N1):
            g = h // (N1 // N2)
            Q, dO, O = q[b, h].to(work), dout[b, h].to(work), attn_out[b, h].to(work)
            K, V, L = k[b, g].to(work), v[b, g].to(work), softmax_lse[b, h].to(work)
            delta = (dO * O).sum(dim=1)
            for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
                r = torch.arange(i * block_q, min((i + 1) * block_q, S1))
                c = torch.arange(j * block_kv, min((j + 1) * block_kv, S2))
                s = Q[r] @ K[c].T * scale
                gap = c[None, :] - r[:, None] - (S2 - S1)
                if mask_mode == 3:
                    s[gap > 0] = -math.inf
                elif mask_mode == 4:
                    if win_left >= 0:
                        s[gap < -win_left] = -math.inf
                    if win_right >= 0:
                        s[gap > win_right] = -math.inf
                p = torch.exp(s - L[r, None])
                dp = dO[r] @ V[c].T
                ds = p * dp
                dv[b, g, c] += p.T @ dO[r]
                dq[b, h, r] += ds @ K[c] * scale
                dk[b, g, c] += ds.T @ Q[r] * scale
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
