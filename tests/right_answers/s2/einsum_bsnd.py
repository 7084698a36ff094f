"""Stage 2 in the operator's own layout, BSND: tensors are turned once at the edge, and every product is an einsum with
the group of query heads as its own index (n = kv head, g = head within the group)."""
from math import inf, log, sqrt

import torch
from torch import einsum, nn


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    new_max = torch.fmax(row_max, scores.amax(dim=-1, keepdim=True))
    pivot = new_max.masked_fill(new_max.eq(-inf), 0)
    w = torch.exp(scores - pivot)
    fade = torch.exp(row_max - pivot)
    row_sum = fade * row_sum + einsum("...qk->...q", w).unsqueeze(-1)
    acc = fade * acc + einsum("...qk,...kd->...qd", w, values.to(w.dtype))
    return new_max, row_sum, acc


def merge_states(a, b):
    stacked = [torch.stack(pair) for pair in zip(a, b)]
    new_max = stacked[0].amax(0)
    fade = torch.exp(stacked[0] - new_max.masked_fill(new_max.eq(-inf), 0))
    return new_max, (fade * stacked[1]).sum(0), (fade * stacked[2]).sum(0)


def window(seq_q, seq_kv, mask_mode, win_left, win_right):
    if mask_mode == 3:
        win_left, win_right = -1, 0
    elif mask_mode == 0:
        win_left = win_right = -1
    far = seq_q + seq_kv
    return (far if win_left == -1 else win_left), (far if win_right == -1 else win_right)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left, right = window(seq_q, seq_kv, mask_mode, win_left, win_right)
    shift = seq_kv - seq_q
    return [
        (i, j)
        for i in range((seq_q - 1) // block_q + 1)
        for j in range((seq_kv - 1) // block_kv + 1)
        if j * block_kv <= min(i * block_q + block_q, seq_q) - 1 + shift + right
        and min(j * block_kv + block_kv, seq_kv) - 1 >= i * block_q + shift - left
    ]


def to_groups(t, n2):
    """BNSD -> B S n g D"""
    b, n, s, d = t.shape
    return t.transpose(1, 2).reshape(b, s, n2, n // n2, d)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    (B, N1, S1, D), (N2, S2, Dv) = q.shape, v.shape[1:]
    scale = 1 / sqrt(D) if scale is None else scale
    acc_type = torch.float64 if q.dtype == torch.float64 else torch.float32
    qx, kx, vx = to_groups(q, N2), k.transpose(1, 2), v.transpose(1, 2)
    left, right = window(S1, S2, mask_mode, win_left, win_right)
    todo = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    o = q.new_zeros(B, S1, N2, N1 // N2, Dv, dtype=acc_type)
    lse = q.new_full((B, N2, N1 // N2, S1), inf, dtype=torch.float32)
    for i in range(0, S1, block_q):
        qi = qx[:, i : i + block_q].to(acc_type)
        n = qi.shape[1]
        state = (
            q.new_full((B, N2, N1 // N2, n, 1), -inf, dtype=acc_type),
            q.new_zeros(B, N2, N1 // N2, n, 1, dtype=acc_type),
            q.new_zeros(B, N2, N1 // N2, n, Dv, dtype=acc_type),
        )
        for j in [tj * block_kv for ti, tj in todo if ti * block_q == i]:
            kj, vj = kx[:, j : j + block_kv].to(acc_type), vx[:, j : j + block_kv].to(acc_type)
            s = einsum("bqngd,bknd->bngqk", qi, kj) * scale
            if mask_mode:
                off = torch.arange(j, j + kj.shape[1]) - torch.arange(i, i + n)[:, None] - (S2 - S1)
                s.masked_fill_((off > right) | (off < -left), -inf)
            state = online_softmax_update(state, s, vj.transpose(1, 2).unsqueeze(2))
        m, l, acc = state
        o[:, i : i + n] = einsum("bngqd->bqngd", acc / l.masked_fill(l.eq(0), 1))
        lse[..., i : i + n] = (m + l.log()).masked_fill(l.eq(0), inf).squeeze(-1)
    return o.flatten(2, 3).transpose(1, 2).to(v.dtype), lse.flatten(1, 2)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("heads of unequal width")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        def project(linear):
            w = linear.weight.view(self.num_heads, self.head_dim, self.hidden_dim)
            return einsum("bsc,hdc->bhsd", x, w) + linear.bias.view(self.num_heads, 1, self.head_dim)

        o, _ = FlashAttentionFunction.apply(
            project(self.q_proj), project(self.k_proj), project(self.v_proj), None, 0, -1, -1, self.block_size, self.block_size
        )
        w = self.out_proj.weight.view(self.hidden_dim, self.num_heads, self.head_dim)
        return einsum("bhsd,chd->bsc", o, w) + self.out_proj.bias


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    (B, N1, S1, D), (N2, S2, Dv) = q.shape, v.shape[1:]
    scale = 1 / sqrt(D) if scale is None else scale
    t = torch.float64 if q.dtype == torch.float64 else torch.float32
    qx, gx, ox = to_groups(q, N2), to_groups(dout, N2), to_groups(attn_out, N2)
    kx, vx = k.transpose(1, 2), v.transpose(1, 2)
    lse = softmax_lse.view(B, N2, N1 // N2, S1).to(t)
    left, right = window(S1, S2, mask_mode, win_left, win_right)
    dq = torch.zeros(B, S1, N2, N1 // N2, D, dtype=t)
    dk = torch.zeros(B, S2, N2, D, dtype=t)
    dv = torch.zeros(B, S2, N2, Dv, dtype=t)
    for ti, tj in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        i, j = ti * block_q, tj * block_kv
        qi, gi, oi = (x[:, i : i + block_q].to(t) for x in (qx, gx, ox))
        kj, vj = (x[:, j : j + block_kv].to(t) for x in (kx, vx))
        s = einsum("bqngd,bknd->bngqk", qi, kj) * scale
        off = torch.arange(j, j + kj.shape[1]) - torch.arange(i, i + qi.shape[1])[:, None] - (S2 - S1)
        s = s.masked_fill((off > right) | (off < -left), -inf)
        p = torch.exp(s - lse[..., i : i + block_q, None])
        dp = einsum("bqngd,bknd->bngqk", gi, vj)
        ds = p * (dp - einsum("bqngd,bqngd->bngq", gi, oi).unsqueeze(-1)) * scale
        dv[:, j : j + block_kv] += einsum("bngqk,bqngd->bknd", p, gi)
        dk[:, j : j + block_kv] += einsum("bngqk,bqngd->bknd", ds, qi)
        dq[:, i : i + block_q] += einsum("bngqk,bknd->bqngd", ds, kj)
    return (
        dq.flatten(2, 3).transpose(1, 2).to(q.dtype),
        dk.transpose(1, 2).to(k.dtype),
        dv.transpose(1, 2).to(v.dtype),
    )


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *options):
        names = ("scale", "mask_mode", "win_left", "win_right", "block_q", "block_kv")
        ctx.options = dict(zip(names, options))
        o, lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mark_non_differentiable(lse)
        ctx.extra = len(options)
        return o, lse

    @staticmethod
    def backward(ctx, do, _):
        q, k, v, o, lse = ctx.saved_tensors
        return (*flash_attention_backward(q, k, v, do, o, lse, **ctx.options), *(None,) * ctx.extra)


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    def bnsd(t, cu, n):
        return einsum("snd->nsd", t[cu[n] : cu[n + 1]]).unsqueeze(0)

    pieces = [
        flash_attention_forward(
            bnsd(q, cu_seqlens_q, n), bnsd(k, cu_seqlens_kv, n), bnsd(v, cu_seqlens_kv, n),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        for n in range(cu_seqlens_q.shape[0] - 1)
    ]
    return torch.cat([einsum("bnsd->snd", o) for o, _ in pieces]), torch.cat([lse[0] for _, lse in pieces], -1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    heads, passes = batch * num_heads, (seq_q - 1) // block_q + 1
    return dict(
        hbm_bytes=2 * heads * head_dim * bytes_per_element * (seq_q + passes * seq_kv) + 4 * heads * seq_q,
        flops=4 * heads * head_dim * seq_q * seq_kv,
    )
