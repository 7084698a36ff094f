# flashdojo: exercise=s2-varlen check=s2-varlen.causal misconception=causal-top-left
"""Within a sequence, query i sees keys 0..i, however long the keys are."""
import math
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    T, H, D = q.shape
    scale = D ** -0.5 if scale is None else scale
    out, lse = torch.zeros(T, H, v.shape[2], dtype=q.dtype), torch.full((H, T), math.inf)
    for n in range(cu_seqlens_q.numel() - 1):
        a, b, c, d = int(cu_seqlens_q[n]), int(cu_seqlens_q[n + 1]), int(cu_seqlens_kv[n]), int(cu_seqlens_kv[n + 1])
        if a == b or c == d:
            continue
        for h in range(H):
            kv = h // (H // k.shape[1])
            for r in range(a, b, block_q):
                rows = torch.arange(r, min(r + block_q, b))
                state = (torch.full((len(rows), 1), -math.inf), torch.zeros(len(rows), 1), torch.zeros(len(rows), v.shape[2]))
                for t in range(c, d, block_kv):
                    cols = torch.arange(t, min(t + block_kv, d))
                    s = q[rows, h].float() @ k[cols, kv].float().T * scale
                    if mask_mode == 3:
                        s = s.masked_fill((cols - c)[None, :] > (rows - a)[:, None], -math.inf)
                    state = online_softmax_update(state, s, v[cols, kv].float())
                m, l, acc = state
                out[rows, h] = (acc / l).to(q.dtype)
                lse[h, rows] = (m + l.log()).squeeze(1)
    return out, lse
