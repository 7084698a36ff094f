import math

import torch
from torch import nn


def online_softmax_update(state, scores, values):
    m, l, acc = state
    m_new = torch.maximum(m, scores.max(dim=-1, keepdim=True).values)
    safe = torch.where(m_new == -math.inf, torch.zeros_like(m_new), m_new)
    p = (scores - safe).exp()
    alpha = (m - safe).exp()
    return m_new, alpha * l + p.sum(-1, keepdim=True), alpha * acc + p @ values.to(p.dtype)


def merge_states(a, b):
    (m_a, l_a, o_a), (m_b, l_b, o_b) = a, b
    m = torch.maximum(m_a, m_b)
    safe = torch.where(m == -math.inf, torch.zeros_like(m), m)
    w_a, w_b = (m_a - safe).exp(), (m_b - safe).exp()
    return m, w_a * l_a + w_b * l_b, w_a * o_a + w_b * o_b


def window(mask_mode, win_left, win_right):
    """(left, right) reach of a query around its diagonal; inf where there is no limit."""
    if mask_mode == 3:
        return math.inf, 0
    if mask_mode == 4:
        return (math.inf if win_left < 0 else win_left), (math.inf if win_right < 0 else win_right)
    return math.inf, math.inf


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left, right = window(mask_mode, win_left, win_right)
    shift = seq_kv - seq_q
    tiles = []
    for i in range(math.ceil(seq_q / block_q)):
        first, last = i * block_q, min((i + 1) * block_q, seq_q) - 1
        for j in range(math.ceil(seq_kv / block_kv)):
            lowest, highest = j * block_kv, min((j + 1) * block_kv, seq_kv) - 1
            if lowest <= last + shift + right and highest >= first + shift - left:
                tiles.append((i, j))
    return tiles


def hide(scores, i0, j0, shift, left, right, value):
    """Overwrite what the mask hides in a tile whose corner is query i0, key j0."""
    offset = torch.arange(j0, j0 + scores.shape[-1]) - (torch.arange(i0, i0 + scores.shape[-2]) + shift)[:, None]
    return scores.masked_fill((offset > right) | (offset < -left), value)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, H, S, D = q.shape
    T, E = v.shape[-2:]
    group = H // k.shape[1]
    scale = D**-0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    left, right = window(mask_mode, win_left, win_right)
    out = torch.zeros(B, H, S, E, dtype=q.dtype)
    lse = torch.full((B, H, S), math.inf)
    for i in range(math.ceil(S / block_q)):
        i0, i1 = i * block_q, min((i + 1) * block_q, S)
        q_i = q[:, :, i0:i1].to(wide) * scale
        m = torch.full((B, H, i1 - i0, 1), -math.inf, dtype=wide)
        state = m, torch.zeros_like(m), torch.zeros(B, H, i1 - i0, E, dtype=wide)
        for j in range(math.ceil(T / block_kv)):
            j0, j1 = j * block_kv, min((j + 1) * block_kv, T)
            k_j = k[:, :, j0:j1].to(wide).repeat_interleave(group, dim=1)
            v_j = v[:, :, j0:j1].to(wide).repeat_interleave(group, dim=1)
            s = q_i @ k_j.transpose(-1, -2)
            if mask_mode:
                s = hide(s, i0, j0, 0, left, right, -math.inf)
            state = online_softmax_update(state, s, v_j)
        m, l, acc = state
        out[:, :, i0:i1] = torch.where(l > 0, acc / l, 0).to(q.dtype)
        lse[:, :, i0:i1] = torch.where(l > 0, m + l.log(), math.inf)[..., 0].float()
    return out, lse


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be a multiple of num_heads")
        self.num_heads, self.block_size = num_heads, block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        out, _ = flash_attention_forward(q, k, v, block_q=self.block_size, block_kv=self.block_size)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    H, S, D = q.shape[1:]
    T = k.shape[2]
    group = H // k.shape[1]
    scale = D**-0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    left, right = window(mask_mode, win_left, win_right)
    delta = (dout.to(wide) * attn_out.to(wide)).sum(-1, keepdim=True)
    dq = torch.zeros(q.shape, dtype=wide)
    dk = torch.zeros(k.shape, dtype=wide)
    dv = torch.zeros(v.shape, dtype=wide)
    for i, j in visible_tiles(S, T, block_q, block_kv, mask_mode, win_left, win_right):
        a, b = slice(i * block_q, (i + 1) * block_q), slice(j * block_kv, (j + 1) * block_kv)
        q_i, do_i = q[:, :, a].to(wide), dout[:, :, a].to(wide)
        k_j = k[:, :, b].to(wide).repeat_interleave(group, dim=1)
        v_j = v[:, :, b].to(wide).repeat_interleave(group, dim=1)
        p = (q_i @ k_j.transpose(-1, -2) * scale - softmax_lse[:, :, a, None].to(wide)).exp()
        if mask_mode:
            p = hide(p, a.start, b.start, T - S, left, right, 0.0)
        ds = p * (do_i @ v_j.transpose(-1, -2) - delta[:, :, a]) * scale
        dq[:, :, a] += ds @ k_j
        dk[:, :, b] += (ds.transpose(-1, -2) @ q_i).unflatten(1, (-1, group)).sum(2)
        dv[:, :, b] += (p.transpose(-1, -2) @ do_i).unflatten(1, (-1, group)).sum(2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.how = dict(
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv
        )
        out, lse = flash_attention_forward(q, k, v, **ctx.how)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        return (*flash_attention_backward(q, k, v, dout, out, lse, **ctx.how), *[None] * 6)


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype)
    lse = torch.full((q.shape[1], q.shape[0]), math.inf)
    for b in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        keys = slice(int(cu_seqlens_kv[b]), int(cu_seqlens_kv[b + 1]))
        o, l = flash_attention_forward(
            q[rows].transpose(0, 1)[None], k[keys].transpose(0, 1)[None], v[keys].transpose(0, 1)[None],
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        out[rows], lse[:, rows] = o[0].transpose(0, 1), l[0]
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    rounds = math.ceil(seq_q / block_q)
    elements = seq_q * head_dim * 2 + rounds * seq_kv * head_dim * 2
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (bytes_per_element * elements + 4 * seq_q),
    }
