# flashdojo: exercise=s2-varlen check=s2-varlen.lse,s2-varlen.empty misconception=lse-value
"""softmax_lse in base 2."""
import math

import torch


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    outs, lses = [], []
    for b in range(len(cu_seqlens_q) - 1):
        sq = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        sk = slice(int(cu_seqlens_kv[b]), int(cu_seqlens_kv[b + 1]))
        o, l = flash_attention_forward(q[sq].transpose(0, 1)[None], k[sk].transpose(0, 1)[None], v[sk].transpose(0, 1)[None],
                                       scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        outs.append(o[0].transpose(0, 1))
        lses.append(l[0] / math.log(2))
    return torch.cat(outs), torch.cat(lses, dim=1)
