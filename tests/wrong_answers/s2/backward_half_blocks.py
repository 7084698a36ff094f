# flashdojo: exercise=s2-backward check=s2-backward.tile-size misconception=block-size-ignored
"""Half of each block, to make room for the gradients."""
import torch
from torch import einsum


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, H, S1, D = q.shape
    Hk, S2, Dv = v.shape[1:]
    if scale is None:
        scale = D ** -0.5
    block_q, block_kv = max(1, block_q // 2), max(1, block_kv // 2)
    G = H // Hk
    t = torch.promote_types(q.dtype, torch.float32)
    row_dot = (dout.to(t) * attn_out.to(t)).sum(-1, keepdim=True)
    grad_q = torch.zeros(B, H, S1, D, dtype=t)
    grad_k = torch.zeros(B, H, S2, D, dtype=t)
    grad_v = torch.zeros(B, H, S2, Dv, dtype=t)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i, j in sorted(tiles, key=lambda tile: tile[::-1]):
        rows = slice(i * block_q, min(S1, (i + 1) * block_q))
        cols = slice(j * block_kv, min(S2, (j + 1) * block_kv))
        q_i, do_i = q[:, :, rows].to(t), dout[:, :, rows].to(t)
        k_j = k[:, :, cols].to(t).repeat_interleave(G, dim=1)
        v_j = v[:, :, cols].to(t).repeat_interleave(G, dim=1)
        logits = einsum("bhqd,bhkd->bhqk", q_i, k_j) * scale
        prob = torch.exp(logits - softmax_lse[:, :, rows, None].to(t))
        if mask_mode:
            ahead = torch.arange(cols.start, cols.stop) - torch.arange(rows.start, rows.stop)[:, None] - (S2 - S1)
            right = 0 if mask_mode == 3 else win_right
            left = -1 if mask_mode == 3 else win_left
            if right >= 0:
                prob = prob.masked_fill(ahead > right, 0.0)
            if left >= 0:
                prob = prob.masked_fill(ahead < -left, 0.0)
        grad_v[:, :, cols] += einsum("bhqk,bhqd->bhkd", prob, do_i)
        grad_prob = einsum("bhqd,bhkd->bhqk", do_i, v_j)
        grad_logits = prob * (grad_prob - row_dot[:, :, rows])
        grad_q[:, :, rows] += scale * einsum("bhqk,bhkd->bhqd", grad_logits, k_j)
        grad_k[:, :, cols] += scale * einsum("bhqk,bhqd->bhkd", grad_logits, q_i)
    grad_k = grad_k.view(B, Hk, G, S2, D).sum(2)
    grad_v = grad_v.view(B, Hk, G, S2, Dv).sum(2)
    return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype)
