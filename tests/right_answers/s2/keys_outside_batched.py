"""FlashAttention-1 order: key tiles in the OUTER loop, the states of all rows live in O(N) buffers and are updated in
place; rows are [B * N2, G * S1] so that a group shares its keys in one bmm. Arrays of limits instead of masks by mode."""
import math

import torch
import torch.nn as nn

MINUS = -math.inf


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = (t.clone() for t in state)
    # rows in which this tile shows at least one key; the others keep their state as it is
    tile_max = scores.amax(-1, keepdim=True)
    live = tile_max != MINUS
    new_max = torch.where(live, torch.maximum(row_max, tile_max), row_max)
    base = torch.where(live, new_max, torch.zeros_like(new_max))
    p = torch.exp(scores - base)
    shrink = torch.where(live, torch.exp(row_max - base), torch.ones_like(base))
    row_sum.mul_(shrink).add_(p.sum(-1, keepdim=True))
    acc.mul_(shrink).add_(torch.matmul(p, values.to(p.dtype)))
    return new_max, row_sum, acc


def merge_states(a, b):
    larger_a = a[0] >= b[0]
    row_max = torch.where(larger_a, a[0], b[0])
    gap = torch.where(larger_a, b[0] - a[0], a[0] - b[0])  # <= 0; nan when both are -inf
    small = torch.exp(gap).nan_to_num(nan=0.0)
    wa = torch.where(larger_a, torch.ones_like(small), small)
    wb = torch.where(larger_a, small, torch.ones_like(small))
    return row_max, wa * a[1] + wb * b[1], wa * a[2] + wb * b[2]


def first_and_last_key(seq_q, seq_kv, mask_mode, win_left, win_right, device=None):
    """For every query the first key it sees and one past the last, two vectors of length seq_q."""
    diagonal = torch.arange(seq_q, device=device) + (seq_kv - seq_q)
    first = torch.zeros_like(diagonal)
    stop = torch.full_like(diagonal, seq_kv)
    if mask_mode == 3:
        stop = diagonal + 1
    elif mask_mode == 4:
        if win_left >= 0:
            first = diagonal - win_left
        if win_right >= 0:
            stop = diagonal + win_right + 1
    return first.clamp(0, seq_kv), stop.clamp(0, seq_kv)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    no_left = mask_mode != 4 or win_left < 0
    no_right = mask_mode == 0 or (mask_mode == 4 and win_right < 0)
    reach = 0 if mask_mode == 3 else win_right
    tiles = []
    for i in range(0, (seq_q + block_q - 1) // block_q):
        lo = 0 if no_left else i * block_q + seq_kv - seq_q - win_left
        hi = seq_kv if no_right else min(i * block_q + block_q, seq_q) + seq_kv - seq_q + reach
        lo, hi = max(lo, 0), min(hi, seq_kv)
        j = lo // block_kv
        while lo < hi and j * block_kv < hi:
            tiles.append((i, j))
            j += 1
    return tiles


def _shape(q, k, v):
    return q.shape[0], k.shape[1], q.shape[1] // k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]


def _by_key_tile(tiles):
    columns = {}
    for i, j in tiles:
        columns.setdefault(j, []).append(i)
    return sorted(columns.items())


def _masked_scores(qt, kt, scale, first, stop, rows, cols, group):
    s = torch.bmm(qt, kt.transpose(1, 2)).mul_(scale)
    key = torch.arange(cols.start, cols.stop, device=s.device)
    f, e = first[rows].repeat(group)[:, None], stop[rows].repeat(group)[:, None]
    return s.masked_fill_((key < f) | (key >= e), MINUS)


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N2, G, S1, S2, D, Dv = _shape(q, k, v)
    scale = 1 / math.sqrt(D) if scale is None else scale
    ct = torch.promote_types(q.dtype, torch.float32)
    first, stop = first_and_last_key(S1, S2, mask_mode, win_left, win_right, q.device)
    q4 = q.reshape(B * N2, G, S1, D)
    k3, v3 = k.reshape(B * N2, S2, D), v.reshape(B * N2, S2, Dv)

    big_max = torch.full((B * N2, G, S1, 1), MINUS, dtype=ct, device=q.device)
    big_sum = torch.zeros_like(big_max)
    big_acc = torch.zeros(B * N2, G, S1, Dv, dtype=ct, device=q.device)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for j, query_tiles in _by_key_tile(tiles):
        cols = slice(j * block_kv, min(S2, (j + 1) * block_kv))
        kt, vt = k3[:, cols].to(ct), v3[:, cols].to(ct)
        for i in query_tiles:
            rows = slice(i * block_q, min(S1, (i + 1) * block_q))
            qt = q4[:, :, rows].to(ct).flatten(1, 2)
            s = _masked_scores(qt, kt, scale, first, stop, rows, cols, G)
            old = tuple(t[:, :, rows].flatten(1, 2) for t in (big_max, big_sum, big_acc))
            for buffer, new in zip((big_max, big_sum, big_acc), online_softmax_update(old, s, vt)):
                buffer[:, :, rows] = new.unflatten(1, (G, -1))
    blind = big_sum.eq(0)
    out = big_acc.div_(big_sum + blind)
    lse = (big_max + big_sum.log()).masked_fill(blind, math.inf)
    return out.reshape(B, N2 * G, S1, Dv).to(q.dtype), lse.reshape(B, N2 * G, S1).to(torch.float32)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if num_heads * (hidden_dim // num_heads) != hidden_dim:
            raise ValueError("hidden_dim must be a multiple of num_heads")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)

    def forward(self, x):
        B, N, D = x.shape
        H, d, bs = self.num_heads, self.head_dim, self.block_size
        Q, K, V = (p(x).view(B, N, H, d).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        starts = range(0, N, bs)
        numerator = [torch.zeros_like(Q[:, :, i : i + bs]) for i in starts]
        lse = [torch.full_like(Q[:, :, i : i + bs, :1], MINUS) for i in starts]
        for j in starts:  # key blocks outside
            Kj, Vj = K[:, :, j : j + bs], V[:, :, j : j + bs]
            for n, i in enumerate(starts):
                scores = (Q[:, :, i : i + bs] / math.sqrt(d)) @ Kj.transpose(-1, -2)
                new = torch.logaddexp(lse[n], torch.logsumexp(scores, -1, keepdim=True))
                numerator[n] = numerator[n] * torch.exp(lse[n] - new) + torch.exp(scores - new) @ Vj
                lse[n] = new
        return self.out_proj(torch.cat(numerator, 2).transpose(1, 2).reshape(B, N, D))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    B, N2, G, S1, S2, D, Dv = _shape(q, k, v)
    scale = 1 / math.sqrt(D) if scale is None else scale
    ct = torch.promote_types(q.dtype, torch.float32)
    first, stop = first_and_last_key(S1, S2, mask_mode, win_left, win_right, q.device)
    q4, do4 = q.reshape(B * N2, G, S1, D), dout.reshape(B * N2, G, S1, Dv)
    k3, v3 = k.reshape(B * N2, S2, D), v.reshape(B * N2, S2, Dv)
    lse4 = softmax_lse.reshape(B * N2, G, S1, 1).to(ct)
    delta4 = torch.linalg.vecdot(do4.to(ct), attn_out.reshape(B * N2, G, S1, Dv).to(ct)).unsqueeze(-1)

    dq4 = torch.zeros(B * N2, G, S1, D, dtype=ct, device=q.device)
    dk3 = torch.zeros(B * N2, S2, D, dtype=ct, device=q.device)
    dv3 = torch.zeros(B * N2, S2, Dv, dtype=ct, device=q.device)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for j, query_tiles in _by_key_tile(tiles):
        cols = slice(j * block_kv, min(S2, (j + 1) * block_kv))
        kt, vt = k3[:, cols].to(ct), v3[:, cols].to(ct)
        for i in query_tiles:
            rows = slice(i * block_q, min(S1, (i + 1) * block_q))
            qt, dot, lse, delta = (t[:, :, rows].to(ct).flatten(1, 2) for t in (q4, do4, lse4, delta4))
            p = (_masked_scores(qt, kt, scale, first, stop, rows, cols, G) - lse).exp_()
            ds = torch.baddbmm(-delta.expand(-1, -1, p.shape[2]), dot, vt.transpose(1, 2)).mul_(p).mul_(scale)
            dv3[:, cols].baddbmm_(p.transpose(1, 2), dot)
            dk3[:, cols].baddbmm_(ds.transpose(1, 2), qt)
            dq4[:, :, rows] += torch.bmm(ds, kt).unflatten(1, (G, -1))
    return dq4.reshape(q.shape).to(q.dtype), dk3.reshape(k.shape).to(k.dtype), dv3.reshape(v.shape).to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.options = options = dict(
            scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv
        )
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **options)
        ctx.mark_non_differentiable(softmax_lse)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dout, *unused):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        grads = list(flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, **ctx.options))
        for n in range(3):
            if not ctx.needs_input_grad[n]:
                grads[n] = None
        return (*grads, None, None, None, None, None, None)


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    T1, N1 = q.shape[:2]
    out_nt = torch.zeros(N1, T1, v.shape[2], dtype=q.dtype, device=q.device)  # heads first, turned round at the end
    lse = torch.full((N1, T1), math.inf, dtype=torch.float32, device=q.device)
    qn, kn, vn = q.transpose(0, 1)[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None]
    for b in range(cu_seqlens_q.shape[0] - 1):
        mine = slice(cu_seqlens_q[b].item(), cu_seqlens_q[b + 1].item())
        its = slice(cu_seqlens_kv[b].item(), cu_seqlens_kv[b + 1].item())
        if mine.start < mine.stop and its.start < its.stop:
            o, l = flash_attention_forward(
                qn[:, :, mine], kn[:, :, its], vn[:, :, its],
                scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
            )
            out_nt[:, mine] = o[0]
            lse[:, mine] = l[0]
    return out_nt.transpose(0, 1).contiguous(), lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    query_tiles, rest = divmod(seq_q, block_q)
    query_tiles += rest > 0
    io = 2 * head_dim * (seq_q + query_tiles * seq_kv) * bytes_per_element
    return {
        "flops": 2 * (seq_q * seq_kv * head_dim) * 2 * batch * num_heads,
        "hbm_bytes": (io + 4 * seq_q) * batch * num_heads,
    }
