# flashdojo: exercise=s2-varlen check=s2-varlen.gqa misconception=gqa-interleaved
"""k and v are repeated as a whole: head h reads key/value head h % N2."""
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    g = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, g, 1), v.repeat(1, g, 1)
    out = torch.zeros(*q.shape[:2], v.shape[-1], dtype=q.dtype)
    lse = torch.full((q.shape[1], q.shape[0]), float("inf"))
    cq, ck = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for i in range(len(cq) - 1):
        rows, cols = slice(cq[i], cq[i + 1]), slice(ck[i], ck[i + 1])
        if rows.start == rows.stop or cols.start == cols.stop:
            continue
        args = [x.transpose(0, 1)[None] for x in (q[rows], k[cols], v[cols])]
        o, s = flash_attention_forward(*args, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        out[rows], lse[:, rows] = o[0].transpose(0, 1), s[0]
    return out, lse
