# flashdojo: exercise=s2-forward check=s2-forward.half-many-tiles misconception=half-accumulators
# idea: The output accumulator is held in the dtype of q and rounded to half precision after every key tile.
import torch


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[-1]
    group = N1 // N2
    f = torch.float64 if q.dtype == torch.float64 else torch.float32
    if scale is None:
        scale = D ** -0.5
    NEG, INF = float("-inf"), float("inf")

    out = torch.zeros(B, N1, S1, Dv, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, N1, S1, dtype=torch.float32, device=q.device).fill_(INF)
    plan = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)

    for h in range(N1):
        kh = h // group
        for i in dict.fromkeys(i for i, _ in plan):
            a, b = i * block_q, min((i + 1) * block_q, S1)
            qi = q[:, h, a:b].to(f)
            where = torch.arange(a, b, device=q.device) + (S2 - S1)
            m = torch.full((B, b - a, 1), NEG, dtype=f, device=q.device)
            l = torch.zeros(B, b - a, 1, dtype=f, device=q.device)
            o = torch.zeros(B, b - a, Dv, dtype=q.dtype, device=q.device)
            for j in (j for ii, j in plan if ii == i):
                c, d = j * block_kv, min((j + 1) * block_kv, S2)
                s = torch.bmm(qi, k[:, kh, c:d].to(f).transpose(1, 2)) * scale
                cols = torch.arange(c, d, device=q.device)
                dist = cols[None, :] - where[:, None]
                if mask_mode == 3:
                    s = s.masked_fill(dist > 0, NEG)
                if mask_mode == 4 and win_right > -1:
                    s = s.masked_fill(dist > win_right, NEG)
                if mask_mode == 4 and win_left > -1:
                    s = s.masked_fill(dist < -win_left, NEG)
                m2 = torch.maximum(m, s.amax(-1, keepdim=True))
                ref = m2.masked_fill(m2 == NEG, 0)
                p = torch.exp(s - ref)
                fac = torch.exp(m - ref)
                l = l * fac + p.sum(-1, keepdim=True)
                o = (o * fac + torch.bmm(p, v[:, kh, c:d].to(f))).to(o.dtype)
                m = m2
            none = l == 0
            l = l.masked_fill(none, 1)
            out[:, h, a:b] = (o / l).to(q.dtype)
            lse[:, h, a:b] = (m + l.log()).masked_fill(none, INF).squeeze(-1).float()
    return out, lse
