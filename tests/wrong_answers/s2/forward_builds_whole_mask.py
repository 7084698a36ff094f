# flashdojo: exercise=s2-forward check=s2-forward.memory misconception=quadratic-memory
# idea: A mask of S1 x S2 is built before the loops and cut into tiles, so memory grows with the product of the lengths.
import math

import torch


def build_mask(s1, s2, mask_mode, win_left, win_right, device):
    i = torch.arange(s1, device=device)[:, None] + s2 - s1
    j = torch.arange(s2, device=device)[None, :]
    m = torch.ones(s1, s2, dtype=torch.bool, device=device)
    if mask_mode == 3:
        m = m & (j <= i)
    elif mask_mode == 4:
        if win_left >= 0:
            m = m & (j >= i - win_left)
        if win_right >= 0:
            m = m & (j <= i + win_right)
    return m


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    rep = N1 // N2
    if scale is None:
        scale = 1 / math.sqrt(D)
    wide = torch.promote_types(q.dtype, torch.float32)
    mask = build_mask(S1, S2, mask_mode, win_left, win_right, q.device)

    outs, lses = [], []
    for q0 in range(0, S1, block_q):
        q1 = min(q0 + block_q, S1)
        qt = q[:, :, q0:q1].to(wide) * scale
        mx = torch.full((B, N1, q1 - q0, 1), -math.inf, dtype=wide, device=q.device)
        sm = torch.zeros_like(mx)
        ac = torch.zeros(B, N1, q1 - q0, Dv, dtype=wide, device=q.device)
        for k0 in range(0, S2, block_kv):
            k1 = min(k0 + block_kv, S2)
            mt = mask[q0:q1, k0:k1]
            if not mt.any():
                continue
            kt = k[:, :, k0:k1].to(wide).repeat_interleave(rep, dim=1)
            vt = v[:, :, k0:k1].to(wide).repeat_interleave(rep, dim=1)
            st = (qt @ kt.transpose(-1, -2)).masked_fill(~mt, -math.inf)
            mx, sm, ac = online_softmax_update((mx, sm, ac), st, vt)
        dead = sm == 0
        sm = sm + dead.to(wide)
        outs.append((ac / sm).to(q.dtype))
        lses.append((mx + sm.log()).masked_fill(dead, math.inf)[..., 0].float())
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)
