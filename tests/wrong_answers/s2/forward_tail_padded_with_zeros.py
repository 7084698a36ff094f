# flashdojo: exercise=s2-forward check=s2-forward.tails,s2-forward.float64 misconception=tail-padded also=float64-lost
"""K is padded to whole tiles with zeros; the padding's exp(0) is counted."""
import math
import torch
import torch.nn.functional as F


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, H, S1, D = q.shape
    S2 = k.shape[2]
    scale = 1 / math.sqrt(D) if scale is None else scale
    block_kv = min(block_kv, S2)
    pad = -S2 % block_kv
    kp = F.pad(k.float(), (0, 0, 0, pad)).repeat_interleave(H // k.shape[1], 1)
    vp = F.pad(v.float(), (0, 0, 0, pad)).repeat_interleave(H // k.shape[1], 1)
    out, lse = torch.zeros(B, H, S1, v.shape[-1]), torch.zeros(B, H, S1)
    for a in range(0, S1, block_q):
        qt = q[:, :, a:a + block_q].float() * scale
        state = (torch.full_like(qt[..., :1], -math.inf), torch.zeros_like(qt[..., :1]), torch.zeros(*qt.shape[:3], v.shape[-1]))
        for c in range(0, S2 + pad, block_kv):
            s = qt @ kp[:, :, c:c + block_kv].mT
            gap = torch.arange(c, c + block_kv) - torch.arange(a, a + qt.shape[2])[:, None] - (S2 - S1)
            if mask_mode == 3:
                s = s.masked_fill(gap > 0, -math.inf)
            if mask_mode == 4 and win_right >= 0:
                s = s.masked_fill(gap > win_right, -math.inf)
            if mask_mode == 4 and win_left >= 0:
                s = s.masked_fill(gap < -win_left, -math.inf)
            state = online_softmax_update(state, s, vp[:, :, c:c + block_kv])
        m, l, acc = state
        out[:, :, a:a + block_q] = torch.where(l > 0, acc / l, 0.0)
        lse[:, :, a:a + block_q] = torch.where(l > 0, m + l.log(), math.inf).squeeze(-1)
    return out.to(q.dtype), lse
