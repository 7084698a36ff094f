# flashdojo: exercise=s2-forward check=s2-forward.memory misconception=one-side-not-tiled
"""A loop over queries, each against all keys: block_q and block_kv are never used."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, H, S1, D = q.shape
    S2 = k.shape[2]
    scale = 1 / math.sqrt(D) if scale is None else scale
    work = torch.promote_types(q.dtype, torch.float32)
    K = k.to(work).repeat_interleave(H // k.shape[1], 1)
    V = v.to(work).repeat_interleave(H // k.shape[1], 1)
    keys = torch.arange(S2)
    out, lse = torch.zeros(B, H, S1, v.shape[3], dtype=q.dtype), torch.full((B, H, S1), math.inf)
    for i in range(S1):
        own = i + S2 - S1
        first = max(0, own - win_left) if mask_mode == 4 and win_left >= 0 else 0
        last = own if mask_mode == 3 else own + win_right if mask_mode == 4 and win_right >= 0 else S2 - 1
        last = min(last, S2 - 1)
        if first > last:
            continue
        s = torch.matmul(q[:, :, i : i + 1].to(work), K[:, :, first : last + 1].transpose(-1, -2)) * scale
        lse[:, :, i] = torch.logsumexp(s, dim=-1)[..., 0]
        out[:, :, i] = (torch.softmax(s, dim=-1) @ V[:, :, first : last + 1])[:, :, 0].to(q.dtype)
    return out, lse
