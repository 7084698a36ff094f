# flashdojo: exercise=s2-forward check=s2-forward.tile-size misconception=block-size-ignored
"""block_q cuts the keys and block_kv the queries."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    scale = 1 / math.sqrt(D) if scale is None else scale
    block_q, block_kv = block_kv, block_q
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = torch.zeros(B, N1, S1, Dv, dtype=q.dtype)
    lse = torch.full((B, N1, S1), math.inf)
    for b in range(B):
        for h in range(N1):
            g = h // (N1 // N2)
            for i in range(0, S1, block_q):
                Qi = q[b, h, i:i + block_q].to(work)
                rows = torch.arange(i, i + len(Qi))[:, None]
                m = torch.full((len(Qi), 1), -math.inf, dtype=work)
                l = torch.zeros(len(Qi), 1, dtype=work)
                O = torch.zeros(len(Qi), Dv, dtype=work)
                for j in range(0, S2, block_kv):
                    Kj, Vj = k[b, g, j:j + block_kv].to(work), v[b, g, j:j + block_kv].to(work)
                    cols = torch.arange(j, j + len(Kj))[None, :]
                    visible = torch.ones(len(Qi), len(Kj), dtype=torch.bool)
                    if mask_mode == 3:
                        visible = cols <= rows + S2 - S1
                    elif mask_mode == 4:
                        if win_left >= 0:
                            visible &= cols >= rows + S2 - S1 - win_left
                        if win_right >= 0:
                            visible &= cols <= rows + S2 - S1 + win_right
                    if not visible.any():
                        continue
                    s = Qi @ Kj.T * scale
                    s[~visible] = -math.inf
                    m_new = torch.maximum(m, s.max(dim=1, keepdim=True).values)
                    safe = torch.where(m_new == -math.inf, torch.zeros_like(m_new), m_new)
                    p = torch.exp(s - safe)
                    alpha = torch.exp(m - safe)
                    l = alpha * l + p.sum(dim=1, keepdim=True)
                    O = alpha * O + p @ Vj
                    m = m_new
                seen = (l > 0)[:, 0]
                out[b, h, i:i + block_q][seen] = (O / l)[seen].to(q.dtype)
                lse[b, h, i:i + block_q][seen] = (m + torch.log(l))[seen, 0].float()
    return out, lse
