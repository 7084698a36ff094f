# flashdojo: exercise=s2-varlen check=s2-varlen.causal misconception=causal-ignored
"""mask_mode is accepted and dropped."""
import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    parts = []
    cq, ck = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for i in range(len(cq) - 1):
        args = [t.transpose(0, 1).unsqueeze(0) for t in (q[cq[i]:cq[i + 1]], k[ck[i]:ck[i + 1]], v[ck[i]:ck[i + 1]])]
        parts.append(flash_attention_forward(*args, scale=scale, block_q=block_q, block_kv=block_kv))
    return torch.cat([p[0][0].transpose(0, 1) for p in parts]), torch.cat([p[1][0] for p in parts], dim=1)
