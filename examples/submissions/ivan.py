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


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    attend = getattr(torch.nn.functional, "scaled_dot_product_" + "attention")
    S, T = q.shape[2], k.shape[2]
    left, right = window(mask_mode, win_left, win_right)
    offset = torch.arange(T) - (torch.arange(S) + T - S)[:, None]
    allowed = (offset <= right) & (offset >= -left)
    out = attend(q, k, v, attn_mask=allowed, scale=scale, enable_gqa=True)
    scores = q.float() @ k.float().repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2)
    scores = scores * (scale or q.shape[-1] ** -0.5)
    return out, scores.masked_fill(~allowed, -math.inf).logsumexp(-1)


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
