# flashdojo: exercise=s2-backward check=s2-backward.gqa misconception=gqa-gradient-not-summed
# idea: Query heads that share a key/value head overwrite each other's dk and dv instead of adding to them.
import math

import torch


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    _, heads, s1, dim = q.shape
    _, kv_heads, s2, _ = k.shape
    if scale is None:
        scale = 1 / math.sqrt(dim)

    dq = torch.zeros(q.shape, dtype=wide, device=q.device)
    dk = torch.zeros(k.shape, dtype=wide, device=q.device)
    dv = torch.zeros(v.shape, dtype=wide, device=q.device)

    tiles = visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right)
    for h in range(heads):
        kv = h // (heads // kv_heads)
        qh, doh = q[:, h].to(wide), dout[:, h].to(wide)
        kh, vh = k[:, kv].to(wide), v[:, kv].to(wide)
        lse = softmax_lse[:, h].to(wide).unsqueeze(-1)
        D = (doh * attn_out[:, h].to(wide)).sum(-1, keepdim=True)
        dk_h = torch.zeros_like(kh)
        dv_h = torch.zeros_like(vh)
        for i, j in tiles:
            r = torch.arange(i * block_q, min(s1, (i + 1) * block_q), device=q.device)
            c = torch.arange(j * block_kv, min(s2, (j + 1) * block_kv), device=q.device)
            S = scale * torch.einsum("bqd,bkd->bqk", qh[:, r], kh[:, c])
            mid = (r + s2 - s1)[:, None]
            ok = torch.ones(len(r), len(c), dtype=torch.bool, device=q.device)
            if mask_mode == 3:
                ok = c <= mid
            if mask_mode == 4:
                if win_right != -1:
                    ok = ok & (c <= mid + win_right)
                if win_left != -1:
                    ok = ok & (c >= mid - win_left)
            P = torch.where(ok, torch.exp(S - lse[:, r]), 0.0)
            dP = torch.einsum("bqe,bke->bqk", doh[:, r], vh[:, c])
            dS = P * (dP - D[:, r]) * scale
            dv_h[:, c] += torch.einsum("bqk,bqe->bke", P, doh[:, r])
            dq[:, h, r] += torch.einsum("bqk,bkd->bqd", dS, kh[:, c])
            dk_h[:, c] += torch.einsum("bqk,bqd->bkd", dS, qh[:, r])
        dk[:, kv] = dk_h
        dv[:, kv] = dv_h
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
