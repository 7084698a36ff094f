# flashdojo: exercise=s2-forward check=s2-forward.strided misconception=assumes-contiguous
"""Merges batch and heads with view, which tensors of other strides do not allow."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    scale = 1 / math.sqrt(D) if scale is None else scale
    work = torch.promote_types(q.dtype, torch.float32)
    Q, K, V = q.view(B * N2, N1 // N2, S1, D), k.view(B * N2, 1, S2, D), v.view(B * N2, 1, S2, Dv)
    out = torch.zeros(B * N2, N1 // N2, S1, Dv, dtype=q.dtype)
    lse = torch.full((B * N2, N1 // N2, S1), math.inf)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i in sorted({i for i, _ in tiles}):
        r = slice(i * block_q, min((i + 1) * block_q, S1))
        state = None
        for j in [j for ii, j in tiles if ii == i]:
            c = slice(j * block_kv, min((j + 1) * block_kv, S2))
            s = Q[:, :, r].to(work) @ K[:, :, c].to(work).mT * scale
            gap = torch.arange(c.start, c.stop) - torch.arange(r.start, r.stop)[:, None] - (S2 - S1)
            if mask_mode == 3 or (mask_mode == 4 and win_right >= 0):
                s = s.masked_fill(gap > (0 if mask_mode == 3 else win_right), -math.inf)
            if mask_mode == 4 and win_left >= 0:
                s = s.masked_fill(gap < -win_left, -math.inf)
            if state is None:
                state = (torch.full_like(s[..., :1], -math.inf), torch.zeros_like(s[..., :1]), s.new_zeros(*s.shape[:-1], Dv))
            state = online_softmax_update(state, s, V[:, :, c])
        m, l, acc = state
        out[:, :, r] = torch.where(l > 0, acc / l, 0.0).to(q.dtype)
        lse[:, :, r] = torch.where(l > 0, m + l.log(), math.inf)[..., 0].float()
    return out.view(B, N1, S1, Dv), lse.view(B, N1, S1)
