"""Stage 2 by somebody who does not trust float32: every tile is computed in float64, results are rounded once."""
import math

import torch
from torch import nn

f64 = torch.float64


def online_softmax_update(state, scores, values):
    dtype = state[0].dtype
    m, l, acc = (t.to(f64) for t in state)
    scores, values = scores.to(f64), values.to(f64)
    m_new = torch.max(m, scores.max(dim=-1, keepdim=True)[0])
    # a row whose scores are all -inf so far: exp must see -inf - 0
    m_safe = torch.where(m_new.isinf(), torch.zeros_like(m_new), m_new)
    p = (scores - m_safe).exp()
    r = (m - m_safe).exp()
    l = r * l + p.sum(-1, keepdim=True)
    acc = r * acc + p @ values
    return m_new.to(dtype), l.to(dtype), acc.to(dtype)


def merge_states(a, b):
    dtype = a[0].dtype
    (m1, l1, o1), (m2, l2, o2) = ([t.to(f64) for t in s] for s in (a, b))
    m = torch.max(m1, m2)
    m_safe = torch.where(m.isinf(), torch.zeros_like(m), m)
    r1, r2 = (m1 - m_safe).exp(), (m2 - m_safe).exp()
    return m.to(dtype), (r1 * l1 + r2 * l2).to(dtype), (r1 * o1 + r2 * o2).to(dtype)


def keep_mask(q_index, k_index, seq_q, seq_kv, mask_mode, win_left, win_right):
    ahead = k_index - (q_index + seq_kv - seq_q)
    if mask_mode == 3:
        return ahead <= 0
    if mask_mode == 4:
        if win_left == -1:
            win_left = seq_q + seq_kv
        if win_right == -1:
            win_right = seq_q + seq_kv
        return (-win_left <= ahead) & (ahead <= win_right)
    return ahead == ahead


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    """A tile is visible when one of the pairs on its border diagonal strip is: ask the mask itself, tile by tile."""
    result = []
    for i in range(0, seq_q, block_q):
        rows = torch.arange(i, min(i + block_q, seq_q)).unsqueeze(1)
        for j in range(0, seq_kv, block_kv):
            cols = torch.arange(j, min(j + block_kv, seq_kv)).unsqueeze(0)
            if keep_mask(rows, cols, seq_q, seq_kv, mask_mode, win_left, win_right).any().item():
                result.append((i // block_q, j // block_kv))
    return result


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    scale = scale if scale is not None else 1 / math.sqrt(D)
    per_group = N1 // N2
    out = torch.empty(B, N1, S1, Dv, dtype=v.dtype)
    lse = torch.empty(B, N1, S1, dtype=torch.float32)
    plan = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for g in range(N2):
        heads = slice(g * per_group, (g + 1) * per_group)
        for i in range((S1 + block_q - 1) // block_q):
            rows = slice(i * block_q, min((i + 1) * block_q, S1))
            n = rows.stop - rows.start
            qi = q[:, heads, rows].to(f64)
            m = torch.full((B, per_group, n, 1), float("-inf"), dtype=f64)
            l = torch.zeros(B, per_group, n, 1, dtype=f64)
            o = torch.zeros(B, per_group, n, Dv, dtype=f64)
            for ii, j in plan:
                if ii != i:
                    continue
                cols = slice(j * block_kv, min((j + 1) * block_kv, S2))
                s = torch.matmul(qi, k[:, g : g + 1, cols].to(f64).transpose(2, 3)).mul(scale)
                keep = keep_mask(
                    torch.arange(rows.start, rows.stop)[:, None], torch.arange(cols.start, cols.stop)[None, :],
                    S1, S2, mask_mode, win_left, win_right,
                )
                s = s.masked_fill(keep.logical_not(), float("-inf"))
                m, l, o = online_softmax_update((m, l, o), s, v[:, g : g + 1, cols])
            nothing = l == 0
            out[:, heads, rows] = (o / l.masked_fill(nothing, 1.0)).to(v.dtype)
            lse[:, heads, rows] = (m + l.log()).masked_fill(nothing, float("inf")).squeeze(-1).to(torch.float32)
    return out, lse


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim must be a multiple of num_heads")
        self.num_heads, self.head_dim, self.block_size = num_heads, hidden_dim // num_heads, block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        def heads(t):
            return t.view(*t.shape[:-1], self.num_heads, self.head_dim).permute(0, 2, 1, 3)

        out, _ = FlashAttentionFunction.apply(
            heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x)),
            None, 0, -1, -1, self.block_size, self.block_size,
        )
        return self.out_proj(out.permute(0, 2, 1, 3).flatten(2))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    scale = scale if scale is not None else 1 / math.sqrt(D)
    per_group = N1 // N2
    dq = torch.zeros(q.shape, dtype=f64)
    dk = torch.zeros(k.shape, dtype=f64)
    dv = torch.zeros(v.shape, dtype=f64)
    for h in range(N1):
        g = h // per_group
        for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
            rows = slice(i * block_q, min((i + 1) * block_q, S1))
            cols = slice(j * block_kv, min((j + 1) * block_kv, S2))
            qi, do, o = (t[:, h, rows].to(f64) for t in (q, dout, attn_out))
            kj, vj = (t[:, g, cols].to(f64) for t in (k, v))
            keep = keep_mask(
                torch.arange(rows.start, rows.stop)[:, None], torch.arange(cols.start, cols.stop)[None, :],
                S1, S2, mask_mode, win_left, win_right,
            )
            p = torch.exp(qi.bmm(kj.transpose(1, 2)) * scale - softmax_lse[:, h, rows, None].to(f64)) * keep
            p = torch.where(keep, p, torch.zeros((), dtype=f64))
            dp = do.bmm(vj.transpose(1, 2))
            ds = p * (dp - (do * o).sum(-1, keepdim=True))
            dv[:, g, cols] += p.transpose(1, 2).bmm(do)
            dk[:, g, cols] += ds.transpose(1, 2).bmm(qi) * scale
            dq[:, h, rows] += ds.bmm(kj) * scale
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.settings = {k_: v_ for k_, v_ in locals().items() if k_ not in ("ctx", "q", "k", "v")}
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **ctx.settings)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    def backward(ctx, *grads):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        return flash_attention_backward(q, k, v, grads[0], attn_out, softmax_lse, **ctx.settings) + 6 * (None,)


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    attn_out = v.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    softmax_lse = torch.full((q.shape[1], q.shape[0]), float("inf"), dtype=torch.float32)
    bounds = zip(cu_seqlens_q[:-1], cu_seqlens_q[1:], cu_seqlens_kv[:-1], cu_seqlens_kv[1:])
    for q0, q1, k0, k1 in bounds:
        if q0 < q1:
            o, lse = flash_attention_forward(
                q[None, q0:q1].transpose(1, 2), k[None, k0:k1].transpose(1, 2), v[None, k0:k1].transpose(1, 2),
                scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
            )
            attn_out[q0:q1] = o.squeeze(0).transpose(0, 1)
            softmax_lse[:, q0:q1] = lse.squeeze(0)
    return attn_out, softmax_lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    q_tiles = len(range(0, seq_q, block_q))
    one_head = bytes_per_element * head_dim * (2 * seq_q + 2 * seq_kv * q_tiles) + 4 * seq_q
    return {"flops": 2 * 2 * seq_q * seq_kv * head_dim * num_heads * batch, "hbm_bytes": one_head * num_heads * batch}
