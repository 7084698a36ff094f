# flashdojo: exercise=s2-backward check=s2-backward.values misconception=d-term-per-tile
# idea: The D term is summed over the keys of the current tile only (rowsum of P * dP there), not over the whole row.
import torch


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    g = N1 // N2
    t = torch.promote_types(q.dtype, torch.float32)
    scale = D ** -0.5 if scale is None else scale

    dq = torch.zeros(B, N1, S1, D, dtype=t, device=q.device)
    dk = torch.zeros(B, N2, S2, D, dtype=t, device=q.device)
    dv = torch.zeros(B, N2, S2, Dv, dtype=t, device=q.device)
    delta_row = (dout.to(t) * attn_out.to(t)).sum(-1)

    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        q0, q1 = i * block_q, min(S1, (i + 1) * block_q)
        k0, k1 = j * block_kv, min(S2, (j + 1) * block_kv)
        rel = torch.arange(k0, k1, device=q.device) - (torch.arange(q0, q1, device=q.device)[:, None] + S2 - S1)
        hidden = torch.zeros_like(rel, dtype=torch.bool)
        if mask_mode == 3:
            hidden = rel > 0
        elif mask_mode == 4:
            if win_left >= 0:
                hidden = hidden | (rel < -win_left)
            if win_right >= 0:
                hidden = hidden | (rel > win_right)
        for h in range(N1):
            n = h // g
            qt, kt, vt = q[:, h, q0:q1].to(t), k[:, n, k0:k1].to(t), v[:, n, k0:k1].to(t)
            do = dout[:, h, q0:q1].to(t)
            s = scale * qt @ kt.mT
            p = torch.exp(s - softmax_lse[:, h, q0:q1, None].to(t)).masked_fill(hidden, 0)
            dp = do @ vt.mT
            delta = (p * dp).sum(-1, keepdim=True)
            ds = p * (dp - delta)
            dv[:, n, k0:k1] += p.mT @ do
            dq[:, h, q0:q1] += scale * ds @ kt
            dk[:, n, k0:k1] += scale * ds.mT @ qt
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
