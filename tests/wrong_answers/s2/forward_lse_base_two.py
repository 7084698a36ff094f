# flashdojo: exercise=s2-forward check=s2-forward.lse misconception=lse-base-2
# idea: The softmax runs on exp2 and softmax_lse is returned in base 2, without the factor ln 2.
import torch

LOG2E = 1.4426950408889634


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, H, M, D = q.shape
    Hk, N, Dv = v.shape[1], v.shape[2], v.shape[3]
    if scale is None:
        scale = D ** -0.5
    qk_scale = scale * LOG2E
    ct = torch.float64 if q.dtype == torch.float64 else torch.float32

    out = torch.zeros(B, H, M, Dv, dtype=q.dtype, device=q.device)
    lse = torch.full((B, H, M), float("inf"), dtype=torch.float32, device=q.device)

    tiles = visible_tiles(M, N, block_q, block_kv, mask_mode, win_left, win_right)
    hi_w = {0: -1, 3: 0, 4: win_right}[mask_mode]
    lo_w = win_left if mask_mode == 4 else -1

    for b in range(B):
        for h in range(H):
            kh = h // (H // Hk)
            for i in sorted({t[0] for t in tiles}):
                r0, r1 = i * block_q, min(M, (i + 1) * block_q)
                q_i = q[b, h, r0:r1].to(ct) * qk_scale
                pos = torch.arange(r0, r1, device=q.device)[:, None] + N - M
                m_i = torch.full((r1 - r0,), float("-inf"), dtype=ct, device=q.device)
                l_i = torch.zeros(r1 - r0, dtype=ct, device=q.device)
                acc = torch.zeros(r1 - r0, Dv, dtype=ct, device=q.device)
                for j in [t[1] for t in tiles if t[0] == i]:
                    c0, c1 = j * block_kv, min(N, (j + 1) * block_kv)
                    s = q_i @ k[b, kh, c0:c1].to(ct).T
                    key = torch.arange(c0, c1, device=q.device)[None, :]
                    if hi_w >= 0:
                        s = s.masked_fill(key > pos + hi_w, float("-inf"))
                    if lo_w >= 0:
                        s = s.masked_fill(key < pos - lo_w, float("-inf"))
                    m_new = torch.maximum(m_i, s.max(1).values)
                    m_use = torch.where(m_new == float("-inf"), torch.zeros_like(m_new), m_new)
                    p = torch.exp2(s - m_use[:, None])
                    alpha = torch.exp2(m_i - m_use)
                    l_i = l_i * alpha + p.sum(1)
                    acc = acc * alpha[:, None] + p @ v[b, kh, c0:c1].to(ct)
                    m_i = m_new
                ok = l_i > 0
                l_safe = torch.where(ok, l_i, torch.ones_like(l_i))
                out[b, h, r0:r1] = (acc / l_safe[:, None]).to(q.dtype)
                row_lse = m_i + torch.log2(l_safe)
                lse[b, h, r0:r1] = torch.where(ok, row_lse, torch.full_like(row_lse, float("inf"))).float()
    return out, lse
