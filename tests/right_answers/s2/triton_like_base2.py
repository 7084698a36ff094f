"""As a Triton kernel is written: one "program" per (batch * head, query tile), exp2, fixed tile shapes with padding,
a backward in two kernels (dk/dv with key tiles outside, dq with query tiles outside) and a preprocess for delta."""
import math

import torch
import torch.nn as nn

LOG2E = math.log2(math.e)
LN2 = math.log(2.0)


def cdiv(a, b):
    return (a + b - 1) // b


def online_softmax_update(state, scores, values):
    m_i, l_i, acc = state
    m_ij = torch.maximum(m_i, torch.amax(scores, dim=-1, keepdim=True))
    m_ref = m_ij.clamp_min(torch.finfo(m_ij.dtype).min)
    p = torch.exp2((scores - m_ref) * LOG2E)
    alpha = torch.exp2((m_i - m_ref) * LOG2E)
    return m_ij, torch.addcmul(p.sum(-1, keepdim=True), l_i, alpha), torch.matmul(p, values.to(p.dtype)) + acc * alpha


def merge_states(a, b):
    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b
    m = torch.maximum(m_a, m_b)
    ref = m.clamp_min(torch.finfo(m.dtype).min)
    s_a, s_b = torch.exp2((m_a - ref) * LOG2E), torch.exp2((m_b - ref) * LOG2E)
    return m, l_a * s_a + l_b * s_b, acc_a * s_a + acc_b * s_b


def _window(mask_mode, win_left, win_right):
    """(left, right) with a huge number for no limit"""
    big = 1 << 60
    if mask_mode == 3:
        return big, 0
    if mask_mode == 4:
        return (big if win_left == -1 else win_left), (big if win_right == -1 else win_right)
    return big, big


def _key_range(start_m, seq_q, seq_kv, block_q, block_kv, left, right):
    last = min((start_m + 1) * block_q, seq_q) - 1
    lo = max(start_m * block_q + seq_kv - seq_q - left, 0)
    hi = min(last + seq_kv - seq_q + right + 1, seq_kv)
    return range(lo // block_kv, cdiv(hi, block_kv)) if lo < hi else range(0)


def _query_range(start_n, seq_q, seq_kv, block_q, block_kv, left, right):
    """the query tiles that see something of key tile start_n"""
    first_key, last_key = start_n * block_kv, min((start_n + 1) * block_kv, seq_kv) - 1
    lo = max(first_key - right - (seq_kv - seq_q), 0)
    hi = min(last_key + left - (seq_kv - seq_q) + 1, seq_q)
    return range(lo // block_q, cdiv(hi, block_q)) if lo < hi else range(0)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left, right = _window(mask_mode, win_left, win_right)
    tiles = []
    for start_m in range(cdiv(seq_q, block_q)):
        for start_n in _key_range(start_m, seq_q, seq_kv, block_q, block_kv, left, right):
            tiles.append((start_m, start_n))
    return tiles


def _load(x, start, block, dtype):
    """x[start : start + block] filled up with zeros to the block"""
    tile = torch.zeros(block, x.shape[1], dtype=dtype, device=x.device)
    n = min(block, x.shape[0] - start)
    tile[:n] = x[start : start + n]
    return tile


def _valid(start_m, start_n, block_q, block_kv, seq_q, seq_kv, left, right, device):
    offs_m = start_m * block_q + torch.arange(block_q, device=device)[:, None]
    offs_n = start_n * block_kv + torch.arange(block_kv, device=device)[None, :]
    rel = offs_n - offs_m - (seq_kv - seq_q)
    return (offs_m < seq_q) & (offs_n < seq_kv) & (rel <= right) & (rel >= -left)


def _fwd_kernel(Q, K, V, O, L, start_m, qk_scale, left, right, block_q, block_kv, dtype):
    seq_q, seq_kv = Q.shape[0], K.shape[0]
    q = _load(Q, start_m * block_q, block_q, dtype)
    m_i = torch.full((block_q,), -math.inf, dtype=dtype, device=Q.device)
    l_i = torch.zeros(block_q, dtype=dtype, device=Q.device)
    acc = torch.zeros(block_q, V.shape[1], dtype=dtype, device=Q.device)
    for start_n in _key_range(start_m, seq_q, seq_kv, block_q, block_kv, left, right):
        k = _load(K, start_n * block_kv, block_kv, dtype)
        v = _load(V, start_n * block_kv, block_kv, dtype)
        ok = _valid(start_m, start_n, block_q, block_kv, seq_q, seq_kv, left, right, Q.device)
        qk = torch.where(ok, torch.mm(q, k.T) * qk_scale, -math.inf)
        m_ij = torch.maximum(m_i, qk.amax(1))
        ref = torch.where(m_ij == -math.inf, 0.0, m_ij)
        p = torch.exp2(qk - ref[:, None])
        alpha = torch.exp2(m_i - ref)
        l_i = l_i * alpha + p.sum(1)
        acc = torch.addmm(acc * alpha[:, None], p, v)
        m_i = m_ij
    n = min(block_q, seq_q - start_m * block_q)
    rows = slice(start_m * block_q, start_m * block_q + n)
    some = l_i > 0
    l_i = torch.where(some, l_i, 1.0)
    O[rows] = (acc / l_i[:, None])[:n].to(O.dtype)
    L[rows] = torch.where(some, (m_i + torch.log2(l_i)) * LN2, math.inf)[:n].to(L.dtype)


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    group = N1 // k.shape[1]
    scale = D**-0.5 if scale is None else scale
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    left, right = _window(mask_mode, win_left, win_right)
    block_q, block_kv = min(block_q, max(S1, 1)), min(block_kv, max(k.shape[2], 1))
    out = torch.zeros(B, N1, S1, v.shape[3], dtype=q.dtype, device=q.device)
    lse = torch.full((B, N1, S1), math.inf, dtype=torch.float32, device=q.device)
    for pid in range(B * N1):
        b, h = divmod(pid, N1)
        for start_m in range(cdiv(S1, block_q)):
            _fwd_kernel(
                q[b, h], k[b, h // group], v[b, h // group], out[b, h], lse[b, h],
                start_m, scale * LOG2E, left, right, block_q, block_kv, dtype,
            )
    return out, lse


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim % num_heads != 0")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        flat = lambda t: t.view(B, N, self.num_heads, self.head_dim).transpose(1, 2).reshape(-1, N, self.head_dim)
        q, k, v = flat(self.q_proj(x)) * (self.head_dim**-0.5 * LOG2E), flat(self.k_proj(x)), flat(self.v_proj(x))
        bs = self.block_size
        out = []
        for m0 in range(0, N, bs):
            qb = q[:, m0 : m0 + bs]
            m_i = l_i = acc = None
            for n0 in range(0, N, bs):
                s = torch.bmm(qb, k[:, n0 : n0 + bs].transpose(1, 2))
                m_ij = s.amax(-1, keepdim=True)
                if m_i is not None:
                    m_ij = torch.maximum(m_i, m_ij)
                p = torch.exp2(s - m_ij)
                pv, ps = torch.bmm(p, v[:, n0 : n0 + bs]), p.sum(-1, keepdim=True)
                if m_i is None:
                    l_i, acc = ps, pv
                else:
                    alpha = torch.exp2(m_i - m_ij)
                    l_i, acc = l_i * alpha + ps, acc * alpha + pv
                m_i = m_ij
            out.append(acc / l_i)
        y = torch.cat(out, dim=1).view(B, self.num_heads, N, self.head_dim).transpose(1, 2).reshape(B, N, D)
        return self.out_proj(y)


def _tile_p_ds(q, k, v, do, lse, delta, ok, scale):
    p = torch.where(ok, torch.exp2((torch.mm(q, k.T) * scale - lse) * LOG2E), 0.0)
    return p, p * (torch.mm(do, v.T) - delta)


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = v.shape[1:]
    group = N1 // N2
    scale = D**-0.5 if scale is None else scale
    t = torch.float64 if q.dtype == torch.float64 else torch.float32
    left, right = _window(mask_mode, win_left, win_right)
    bm, bn = min(block_q, S1), min(block_kv, S2)
    delta = torch.mul(dout.to(t), attn_out.to(t)).sum(-1, keepdim=True)  # preprocess
    lse = softmax_lse.to(t).unsqueeze(-1)
    dq = torch.zeros_like(q)
    dk = torch.zeros_like(k)
    dv = torch.zeros_like(v)

    def row_tile(b, h, m):
        s = m * bm
        return (_load(q[b, h], s, bm, t), _load(dout[b, h], s, bm, t), _load(lse[b, h], s, bm, t),
                _load(delta[b, h], s, bm, t))

    for b in range(B):
        for g in range(N2):  # kernel 1: dk and dv
            for n in range(cdiv(S2, bn)):
                kt, vt = _load(k[b, g], n * bn, bn, t), _load(v[b, g], n * bn, bn, t)
                dkt, dvt = torch.zeros_like(kt), torch.zeros_like(vt)
                for h in range(g * group, (g + 1) * group):
                    for m in _query_range(n, S1, S2, bm, bn, left, right):
                        qt, dot, lt, dt = row_tile(b, h, m)
                        ok = _valid(m, n, bm, bn, S1, S2, left, right, q.device)
                        p, ds = _tile_p_ds(qt, kt, vt, dot, lt, dt, ok, scale)
                        dvt += p.T @ dot
                        dkt += ds.T @ qt
                c = slice(n * bn, min(S2, (n + 1) * bn))
                dk[b, g, c] = (dkt * scale)[: c.stop - c.start].to(k.dtype)
                dv[b, g, c] = dvt[: c.stop - c.start].to(v.dtype)
        for h in range(N1):  # kernel 2: dq
            for m in range(cdiv(S1, bm)):
                qt, dot, lt, dt = row_tile(b, h, m)
                dqt = torch.zeros_like(qt)
                for n in _key_range(m, S1, S2, bm, bn, left, right):
                    kt, vt = _load(k[b, h // group], n * bn, bn, t), _load(v[b, h // group], n * bn, bn, t)
                    ok = _valid(m, n, bm, bn, S1, S2, left, right, q.device)
                    dqt += _tile_p_ds(qt, kt, vt, dot, lt, dt, ok, scale)[1] @ kt
                r = slice(m * bm, min(S1, (m + 1) * bm))
                dq[b, h, r] = (dqt * scale)[: r.stop - r.start].to(q.dtype)
    return dq, dk, dv


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        o, L = flash_attention_forward(
            q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )
        ctx.mark_non_differentiable(L)
        ctx.save_for_backward(q, k, v, o, L)
        ctx.meta = scale, mask_mode, win_left, win_right, block_q, block_kv
        return o, L

    @staticmethod
    def backward(ctx, do, dL):
        q, k, v, o, L = ctx.saved_tensors
        scale, mask_mode, win_left, win_right, block_q, block_kv = ctx.meta
        dq, dk, dv = flash_attention_backward(
            q, k, v, do.contiguous(), o, L, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )
        return dq, dk, dv, *(None for _ in ctx.meta)


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    # straight on the packed tensors: slices along T are enough for the kernel
    T1, N1, D = q.shape
    group = N1 // k.shape[1]
    scale = D**-0.5 if scale is None else scale
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    left, right = _window(mask_mode, -1, -1)
    out = torch.zeros(T1, N1, v.shape[2], dtype=q.dtype, device=q.device)
    lse = torch.full((N1, T1), math.inf, dtype=torch.float32, device=q.device)
    ends = zip(cu_seqlens_q.tolist(), cu_seqlens_q.tolist()[1:], cu_seqlens_kv.tolist(), cu_seqlens_kv.tolist()[1:])
    for q0, q1, k0, k1 in ends:
        if k1 == k0:
            continue
        bm, bn = min(block_q, max(q1 - q0, 1)), min(block_kv, k1 - k0)
        for h in range(N1):
            for start_m in range(cdiv(q1 - q0, bm)):
                _fwd_kernel(
                    q[q0:q1, h], k[k0:k1, h // group], v[k0:k1, h // group], out[q0:q1, h], lse[h, q0:q1],
                    start_m, scale * LOG2E, left, right, bm, bn, dtype,
                )
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    programs = batch * num_heads * cdiv(seq_q, block_q)
    q_and_o = 2 * batch * num_heads * seq_q * head_dim * bytes_per_element
    k_and_v = 2 * programs * seq_kv * head_dim * bytes_per_element
    lse = 4 * batch * num_heads * seq_q
    return {"flops": batch * num_heads * seq_q * seq_kv * head_dim * 4, "hbm_bytes": q_and_o + k_and_v + lse}
