# flashdojo: exercise=s2-backward check=s2-backward.values misconception=scale-twice-gradients
# idea: q is multiplied by scale at the start and dk, which is made from that q, is multiplied by scale once more.
import torch


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    b, n1, s1, d = q.shape
    n2, s2 = k.shape[1:3]
    g = n1 // n2
    if scale is None:
        scale = d ** -0.5
    ft = torch.promote_types(q.dtype, torch.float32)
    right = 0 if mask_mode == 3 else (win_right if mask_mode == 4 else -1)
    left = win_left if mask_mode == 4 else -1

    delta = torch.einsum("bhse,bhse->bhs", dout.to(ft), attn_out.to(ft)).reshape(b, n2, g, s1, 1)
    lse = softmax_lse.to(ft).reshape(b, n2, g, s1, 1)
    q5 = q.reshape(b, n2, g, s1, d)
    do5 = dout.reshape(b, n2, g, s1, -1)

    dq = torch.zeros(b, n2, g, s1, d, dtype=ft, device=q.device)
    dk = torch.zeros(k.shape, dtype=ft, device=q.device)
    dv = torch.zeros(v.shape, dtype=ft, device=q.device)
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        a, z = i * block_q, min(s1, i * block_q + block_q)
        c, e = j * block_kv, min(s2, j * block_kv + block_kv)
        qs = q5[:, :, :, a:z].to(ft) * scale
        do = do5[:, :, :, a:z].to(ft)
        kt, vt = k[:, :, c:e].to(ft), v[:, :, c:e].to(ft)
        s = torch.einsum("bngqd,bnkd->bngqk", qs, kt)
        p = torch.exp(s - lse[:, :, :, a:z])
        off = torch.arange(c, e, device=q.device)[None, :] - torch.arange(a, z, device=q.device)[:, None] - (s2 - s1)
        if right != -1:
            p = p * (off <= right)
        if left != -1:
            p = p * (off >= -left)
        dp = torch.einsum("bngqe,bnke->bngqk", do, vt)
        ds = p * (dp - delta[:, :, :, a:z])
        dv[:, :, c:e] += torch.einsum("bngqk,bngqe->bnke", p, do)
        dk[:, :, c:e] += torch.einsum("bngqk,bngqd->bnkd", ds, qs)
        dq[:, :, :, a:z] += torch.einsum("bngqk,bnkd->bngqd", ds, kt)
    dq *= scale
    dk *= scale
    return dq.reshape(q.shape).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
