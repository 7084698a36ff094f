# flashdojo: exercise=s2-varlen check=s2-varlen.borders misconception=varlen-query-borders-for-keys
# idea: Keys and values are cut at cu_seqlens_q too; cu_seqlens_kv is never read.
import torch


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    T1, N1, _ = q.shape
    out = q.new_zeros(T1, N1, v.shape[-1])
    lse = torch.full((N1, T1), float("inf"), dtype=torch.float32, device=q.device)
    cu, cu_kv = cu_seqlens_q, cu_seqlens_q
    for b in range(len(cu) - 1):
        s, e = int(cu[b]), int(cu[b + 1])
        ks, ke = int(cu_kv[b]), int(cu_kv[b + 1])
        qb = q[s:e].permute(1, 0, 2)[None]
        kb = k[ks:ke].permute(1, 0, 2)[None]
        vb = v[ks:ke].permute(1, 0, 2)[None]
        if qb.shape[2] == 0 or kb.shape[2] == 0:
            continue
        o, l = flash_attention_forward(
            qb, kb, vb, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv
        )
        out[s:e] = o[0].permute(1, 0, 2)
        lse[:, s:e] = l[0]
    return out, lse
