"""Stage 2 as a divide-and-conquer: the visible key tiles of a query tile are halved until one is left, and the states
of the halves are merged. Nothing is ever updated one after the other; update itself is a merge."""
import math

import torch
from torch import nn


def lift(t):
    return t if t.dtype == torch.float64 else t.float()


def leaf(scores, values):
    """The state of one tile."""
    m = scores.amax(-1, keepdim=True)
    p = torch.exp(scores - torch.where(m == -math.inf, torch.zeros_like(m), m))
    return m, p.sum(-1, keepdim=True), torch.matmul(p, values)


def merge_states(a, b):
    m = torch.maximum(a[0], b[0])
    anchor = torch.where(m == -math.inf, torch.zeros_like(m), m)
    fa, fb = torch.exp(a[0] - anchor), torch.exp(b[0] - anchor)
    return m, a[1] * fa + b[1] * fb, a[2] * fa + b[2] * fb


def online_softmax_update(state, scores, values):
    return merge_states(state, leaf(scores, values.to(scores.dtype)))


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    """Quarter the rectangle of tiles and drop what is wholly hidden, down to single tiles."""
    lo, hi = -(seq_q + seq_kv), seq_q + seq_kv
    if mask_mode == 3 or (mask_mode == 4 and win_right >= 0):
        hi = seq_kv - seq_q + (win_right if mask_mode == 4 else 0)
    if mask_mode == 4 and win_left >= 0:
        lo = seq_kv - seq_q - win_left

    def walk(i0, i1, j0, j1):
        r0, r1 = i0 * block_q, min(i1 * block_q, seq_q)
        c0, c1 = j0 * block_kv, min(j1 * block_kv, seq_kv)
        if r0 >= r1 or c0 >= c1 or c0 - (r1 - 1) > hi or (c1 - 1) - r0 < lo:
            return
        if i1 - i0 == 1 and j1 - j0 == 1:
            yield i0, j0
        elif i1 - i0 >= j1 - j0:
            mid = (i0 + i1) // 2
            yield from walk(i0, mid, j0, j1)
            yield from walk(mid, i1, j0, j1)
        else:
            mid = (j0 + j1) // 2
            yield from walk(i0, i1, j0, mid)
            yield from walk(i0, i1, mid, j1)

    return sorted(walk(0, -(-seq_q // block_q), 0, -(-seq_kv // block_kv)))


def hide(scores, r0, c0, shift, mask_mode, win_left, win_right):
    if mask_mode == 0:
        return scores
    n, m = scores.shape[-2:]
    col_minus_row = (c0 + torch.arange(m)) - (r0 + torch.arange(n))[:, None] - shift
    bad = torch.zeros(n, m, dtype=torch.bool)
    if mask_mode == 3:
        bad = col_minus_row > 0
    else:
        if win_left >= 0:
            bad = bad | (col_minus_row < -win_left)
        if win_right >= 0:
            bad = bad | (col_minus_row > win_right)
    return torch.where(bad, torch.full_like(scores, -math.inf), scores)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    b, n1, s1, d = q.shape
    n2, s2, dv = v.shape[1:]
    if scale is None:
        scale = 1 / math.sqrt(d)
    columns = {}
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        columns.setdefault(i, []).append(j)

    def state_of(qt, r0, js):
        if len(js) > 1:
            half = len(js) // 2
            return merge_states(state_of(qt, r0, js[:half]), state_of(qt, r0, js[half:]))
        c0 = js[0] * block_kv
        kt = lift(k[:, :, c0 : c0 + block_kv]).repeat_interleave(n1 // n2, dim=1)
        vt = lift(v[:, :, c0 : c0 + block_kv]).repeat_interleave(n1 // n2, dim=1)
        s = torch.matmul(qt, kt.transpose(-1, -2)) * scale
        return leaf(hide(s, r0, c0, s2 - s1, mask_mode, win_left, win_right), vt)

    outs, lses = [], []
    for r0 in range(0, s1, block_q):
        qt = lift(q[:, :, r0 : r0 + block_q])
        js = columns.get(r0 // block_q)
        if js is None:
            outs.append(torch.zeros(b, n1, qt.shape[2], dv, dtype=v.dtype))
            lses.append(torch.full((b, n1, qt.shape[2]), math.inf))
            continue
        m, l, acc = state_of(qt, r0, js)
        blind = l == 0
        outs.append((acc / torch.where(blind, torch.ones_like(l), l)).to(v.dtype))
        lses.append(torch.where(blind, torch.full_like(l, math.inf), m + l.log()).squeeze(-1).to(torch.float32))
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        self.hidden_dim, self.num_heads, self.block_size = hidden_dim, num_heads, block_size
        self.head_dim = hidden_dim // num_heads
        if self.head_dim * num_heads != hidden_dim:
            raise ValueError("num_heads must divide hidden_dim")
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = [nn.Linear(hidden_dim, hidden_dim) for _ in range(4)]

    def forward(self, x):
        q, k, v = (p(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        out, _ = flash_attention_forward(q, k, v, block_q=self.block_size, block_kv=self.block_size)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    b, n1, s1, d = q.shape
    n2, s2, dv = v.shape[1:]
    g = n1 // n2
    if scale is None:
        scale = 1 / math.sqrt(d)
    tiles = visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right)
    gq = torch.zeros_like(lift(q), memory_format=torch.contiguous_format)
    gk = torch.zeros_like(lift(k), memory_format=torch.contiguous_format)
    gv = torch.zeros_like(lift(v), memory_format=torch.contiguous_format)

    def run(part):
        if len(part) > 1:
            run(part[: len(part) // 2])
            run(part[len(part) // 2 :])
            return
        (i, j), = part
        r, c = slice(i * block_q, i * block_q + block_q), slice(j * block_kv, j * block_kv + block_kv)
        qt, dot, ot = lift(q[:, :, r]), lift(dout[:, :, r]), lift(attn_out[:, :, r])
        kt, vt = lift(k[:, :, c]).repeat_interleave(g, 1), lift(v[:, :, c]).repeat_interleave(g, 1)
        s = hide(qt @ kt.mT * scale, r.start, c.start, s2 - s1, mask_mode, win_left, win_right)
        p = torch.exp(s - softmax_lse[:, :, r].to(s.dtype).unsqueeze(-1))
        ds = p * (dot @ vt.mT - (dot * ot).sum(-1, keepdim=True)) * scale
        gq[:, :, r] += ds @ kt
        gk[:, :, c] += (ds.mT @ qt).unflatten(1, (n2, g)).sum(2)
        gv[:, :, c] += (p.mT @ dot).unflatten(1, (n2, g)).sum(2)

    if tiles:
        run(tiles)
    return gq.to(q.dtype), gk.to(k.dtype), gv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        def run(function, *tensors):
            return function(*tensors, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
                            block_q=block_q, block_kv=block_kv)

        out, lse = run(flash_attention_forward, q, k, v)
        ctx.run = run
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        return ctx.run(flash_attention_backward, q, k, v, dout, out, lse) + (None,) * 6


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    def run(first, last):
        if last - first > 1:
            mid = (first + last) // 2
            (oa, la), (ob, lb) = run(first, mid), run(mid, last)
            return torch.cat([oa, ob], 0), torch.cat([la, lb], 1)
        a, z = int(cu_seqlens_q[first]), int(cu_seqlens_q[last])
        c, e = int(cu_seqlens_kv[first]), int(cu_seqlens_kv[last])
        if a == z:
            return q.new_zeros(0, q.shape[1], v.shape[2], dtype=v.dtype), torch.zeros(q.shape[1], 0)
        o, lse = flash_attention_forward(
            *(t.permute(1, 0, 2)[None] for t in (q[a:z], k[c:e], v[c:e])),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        return o[0].permute(1, 0, 2), lse[0]

    return run(0, len(cu_seqlens_q) - 1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    def tiles(n):
        return 0 if n <= 0 else 1 + tiles(n - block_q)

    element = head_dim * bytes_per_element
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (2 * seq_q * element + tiles(seq_q) * 2 * seq_kv * element + seq_q * 4),
    }
