# flashdojo: exercise=s2-forward check=s2-forward.empty-rows misconception=empty-row-lse
"""log(0) = -inf is returned for rows that see no key; the operator says +inf."""
import math
import torch


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    if scale is None:
        scale = 1.0 / math.sqrt(D)
    dtype = torch.promote_types(q.dtype, torch.float32)
    qg = q.reshape(B, N2, N1 // N2, S1, D)
    attn_out = torch.zeros(B, N2, N1 // N2, S1, Dv, dtype=q.dtype)
    softmax_lse = torch.full((B, N2, N1 // N2, S1), -math.inf)
    states = {}
    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        r = slice(i * block_q, min((i + 1) * block_q, S1))
        c = slice(j * block_kv, min((j + 1) * block_kv, S2))
        qt = qg[:, :, :, r].to(dtype)
        kt, vt = k[:, :, None, c].to(dtype), v[:, :, None, c].to(dtype)
        scores = torch.matmul(qt, kt.transpose(-1, -2)) * scale
        gap = torch.arange(c.start, c.stop) - torch.arange(r.start, r.stop)[:, None] - (S2 - S1)
        if mask_mode == 3:
            scores = scores.masked_fill(gap > 0, -math.inf)
        if mask_mode == 4 and win_left >= 0:
            scores = scores.masked_fill(gap < -win_left, -math.inf)
        if mask_mode == 4 and win_right >= 0:
            scores = scores.masked_fill(gap > win_right, -math.inf)
        if i not in states:
            states = {i: (torch.full_like(scores[..., :1], -math.inf), torch.zeros_like(scores[..., :1]), scores.new_zeros(*scores.shape[:-1], Dv))}
        states[i] = online_softmax_update(states[i], scores, vt)
        row_max, row_sum, acc = states[i]
        ok = row_sum > 0
        attn_out[:, :, :, r] = torch.where(ok, acc / row_sum, 0.0).to(q.dtype)
        softmax_lse[:, :, :, r] = (row_max + row_sum.log()).squeeze(-1)
    return attn_out.flatten(1, 2), softmax_lse.flatten(1, 2)
