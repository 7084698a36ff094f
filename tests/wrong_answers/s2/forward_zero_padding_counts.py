# flashdojo: exercise=s2-forward check=s2-forward.tails misconception=tail-padded
# idea: Short tiles are padded with zero keys that are not masked, so each padded key adds exp(0 - max) to the row sum.
import math

import torch
import torch.nn.functional as F


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    _, N2, S2, Dv = v.shape
    rep = N1 // N2
    sc = 1 / math.sqrt(D) if scale is None else scale
    dt = torch.float64 if q.dtype == torch.float64 else torch.float32
    tq, tk = math.ceil(S1 / block_q), math.ceil(S2 / block_kv)

    # every tile the same size: makes the loops easy
    qp = F.pad(q, (0, 0, 0, tq * block_q - S1)).view(B, N1, tq, block_q, D)
    kp = F.pad(k, (0, 0, 0, tk * block_kv - S2)).view(B, N2, tk, block_kv, D)
    vp = F.pad(v, (0, 0, 0, tk * block_kv - S2)).view(B, N2, tk, block_kv, Dv)
    out = torch.zeros(B, N1, tq, block_q, Dv, dtype=q.dtype, device=q.device)
    lse = torch.full((B, N1, tq, block_q), math.inf, dtype=torch.float32, device=q.device)

    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i in range(tq):
        m = torch.full((B, N1, block_q, 1), -math.inf, dtype=dt, device=q.device)
        l = torch.zeros_like(m)
        o = torch.zeros(B, N1, block_q, Dv, dtype=dt, device=q.device)
        qi = qp[:, :, i].to(dt) * sc
        rows = i * block_q + torch.arange(block_q, device=q.device)[:, None] + S2 - S1
        for ii, j in tiles:
            if ii != i:
                continue
            kj = kp[:, :, j].to(dt).repeat_interleave(rep, 1)
            vj = vp[:, :, j].to(dt).repeat_interleave(rep, 1)
            s = qi @ kj.mT
            cols = j * block_kv + torch.arange(block_kv, device=q.device)[None]
            keep = torch.ones(block_q, block_kv, dtype=torch.bool, device=q.device)
            if mask_mode == 3:
                keep &= cols <= rows
            if mask_mode == 4 and win_right >= 0:
                keep &= cols <= rows + win_right
            if mask_mode == 4 and win_left >= 0:
                keep &= cols >= rows - win_left
            s = torch.where(keep, s, -math.inf)
            m, l, o = online_softmax_update((m, l, o), s, vj)
        has = l > 0
        out[:, :, i] = torch.where(has, o / l, 0.0).to(q.dtype)
        lse[:, :, i] = torch.where(has, m + l.log(), math.inf)[..., 0].float()
    return out.flatten(2, 3)[:, :, :S1], lse.flatten(2, 3)[:, :, :S1]
