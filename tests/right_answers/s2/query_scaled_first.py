"""Stage 2 with q scaled once, in its own dtype, before any tile: in float16 the scores then differ a little from the formula."""
import math

import torch
from torch import nn


def online_softmax_update(state, scores, values):
    m, l, acc = state
    m_new = torch.maximum(m, scores.amax(-1, keepdim=True).to(m.dtype))
    shift = torch.where(m_new == -math.inf, torch.zeros_like(m_new), m_new)
    p = torch.exp(scores.to(m.dtype) - shift)
    alpha = torch.exp(m - shift)
    return m_new, alpha * l + p.sum(-1, keepdim=True), alpha * acc + p @ values.to(acc.dtype)


def merge_states(a, b):
    m = torch.maximum(a[0], b[0])
    shift = m.masked_fill(m == -math.inf, 0.0)
    wa, wb = torch.exp(a[0] - shift), torch.exp(b[0] - shift)
    return m, wa * a[1] + wb * b[1], wa * a[2] + wb * b[2]


def _window(seq_q, seq_kv, mask_mode, win_left, win_right):
    """Visible are the keys with low <= j - i <= high."""
    delta = seq_kv - seq_q
    if mask_mode == 3:
        return -math.inf, delta
    if mask_mode == 4:
        return (-math.inf if win_left < 0 else delta - win_left), (math.inf if win_right < 0 else delta + win_right)
    return -math.inf, math.inf


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    low, high = _window(seq_q, seq_kv, mask_mode, win_left, win_right)
    tiles = []
    for i, q0 in enumerate(range(0, seq_q, block_q)):
        q1 = min(q0 + block_q, seq_q)
        for j, k0 in enumerate(range(0, seq_kv, block_kv)):
            k1 = min(k0 + block_kv, seq_kv)
            if k0 - (q1 - 1) <= high and (k1 - 1) - q0 >= low:
                tiles.append((i, j))
    return tiles


def _tile_mask(q0, q1, k0, k1, low, high):
    """None when the whole tile is visible, else True where a score must go."""
    if k1 - 1 - q0 <= high and k0 - (q1 - 1) >= low:
        return None
    distance = torch.arange(k0, k1)[None, :] - torch.arange(q0, q1)[:, None]
    return (distance < low) | (distance > high)


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    G = N1 // N2
    scale = 1 / math.sqrt(D) if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    low, high = _window(S1, S2, mask_mode, win_left, win_right)
    out = torch.zeros(B, N1, S1, Dv, dtype=v.dtype)
    lse = torch.full((B, N1, S1), math.inf)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i in range(math.ceil(S1 / block_q)):
        q0, q1 = i * block_q, min((i + 1) * block_q, S1)
        qi = (q * scale)[:, :, q0:q1].to(wide).reshape(B, N2, G, q1 - q0, D)
        state = (
            torch.full((B, N2, G, q1 - q0, 1), -math.inf, dtype=wide),
            torch.zeros(B, N2, G, q1 - q0, 1, dtype=wide),
            torch.zeros(B, N2, G, q1 - q0, Dv, dtype=wide),
        )
        for j in (j for row, j in tiles if row == i):
            k0, k1 = j * block_kv, min((j + 1) * block_kv, S2)
            s = qi @ k[:, :, None, k0:k1].to(wide).transpose(-1, -2)
            hidden = _tile_mask(q0, q1, k0, k1, low, high)
            if hidden is not None:
                s = s.masked_fill(hidden, -math.inf)
            state = online_softmax_update(state, s, v[:, :, None, k0:k1])
        m, l, acc = state
        seen = l > 0
        out[:, :, q0:q1] = torch.where(seen, acc / l, torch.zeros_like(acc)).reshape(B, N1, q1 - q0, Dv).to(v.dtype)
        lse[:, :, q0:q1] = torch.where(seen, m + l.log(), torch.full_like(m, math.inf)).reshape(B, N1, q1 - q0)
    return out, lse


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim must be a multiple of num_heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, _ = x.shape
        Q = self.q_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        K = self.k_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.v_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        output, _ = FlashAttentionFunction.apply(Q, K, V, None, 0, -1, -1, self.block_size, self.block_size)
        return self.out_proj(output.transpose(1, 2).reshape(B, N, self.hidden_dim))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    G = N1 // N2
    scale = 1 / math.sqrt(D) if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    low, high = _window(S1, S2, mask_mode, win_left, win_right)
    delta = (dout.to(wide) * attn_out.to(wide)).sum(-1, keepdim=True)
    dq = torch.zeros(B, N2, G, S1, D, dtype=wide)
    dk = torch.zeros(B, N2, S2, D, dtype=wide)
    dv = torch.zeros(B, N2, S2, Dv, dtype=wide)

    def group(t, q0, q1):
        return t[:, :, q0:q1].to(wide).reshape(B, N2, G, q1 - q0, -1)

    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        q0, q1 = i * block_q, min((i + 1) * block_q, S1)
        k0, k1 = j * block_kv, min((j + 1) * block_kv, S2)
        qi, doi = group(q, q0, q1), group(dout, q0, q1)
        kj, vj = k[:, :, None, k0:k1].to(wide), v[:, :, None, k0:k1].to(wide)
        p = torch.exp(scale * (qi @ kj.transpose(-1, -2)) - group(softmax_lse.unsqueeze(-1), q0, q1))
        hidden = _tile_mask(q0, q1, k0, k1, low, high)
        if hidden is not None:
            p = p.masked_fill(hidden, 0.0)
        dv[:, :, k0:k1] += (p.transpose(-1, -2) @ doi).sum(2)
        ds = p * (doi @ vj.transpose(-1, -2) - group(delta, q0, q1)) * scale
        dq[:, :, :, q0:q1] += ds @ kj
        dk[:, :, k0:k1] += (ds.transpose(-1, -2) @ qi).sum(2)
    return dq.reshape(q.shape).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        options = {
            "scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right,
            "block_q": block_q, "block_kv": block_kv,
        }
        out, lse = flash_attention_forward(q, k, v, **options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        return (*flash_attention_backward(q, k, v, dout, out, lse, **ctx.options), None, None, None, None, None, None)


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    T1, N1, _ = q.shape
    out = torch.zeros(T1, N1, v.shape[-1], dtype=v.dtype)
    lse = torch.full((N1, T1), math.inf)
    ends_q, ends_kv = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for a, b, c, d in zip(ends_q, ends_q[1:], ends_kv, ends_kv[1:]):
        if a == b or c == d:
            continue
        o, l = flash_attention_forward(
            q[a:b].transpose(0, 1)[None], k[c:d].transpose(0, 1)[None], v[c:d].transpose(0, 1)[None],
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        out[a:b] = o[0].transpose(0, 1)
        lse[:, a:b] = l[0]
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    passes = math.ceil(seq_q / block_q)
    per_head = 2 * seq_q * head_dim + passes * 2 * seq_kv * head_dim
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": bytes_per_element * batch * num_heads * per_head + 4 * batch * num_heads * seq_q,
    }
