"""Stage 2 the way GPU kernels are written: the backward pass goes over the tiles twice, once for dK and dV (key tiles
outside) and once for dQ (query tiles outside), so that nobody ever adds to memory that somebody else adds to.
The forward pass gets its row sums from the matrix unit: V carries a column of ones."""
import math

import torch
from torch import nn


class Problem:
    """Shapes, precision and mask of one call."""

    def __init__(self, q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv):
        self.B, self.N1, self.S1, self.D = q.shape
        self.N2, self.S2, self.Dv = v.shape[1:]
        self.G = self.N1 // self.N2
        self.scale = 1 / math.sqrt(self.D) if scale is None else scale
        self.dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
        self.mask = (mask_mode, win_left, win_right)
        self.bq, self.bk = block_q, block_kv
        self.tiles = visible_tiles(self.S1, self.S2, block_q, block_kv, *self.mask)

    def rows(self, i):
        return slice(i * self.bq, min(self.S1, (i + 1) * self.bq))

    def cols(self, j):
        return slice(j * self.bk, min(self.S2, (j + 1) * self.bk))

    def queries(self, t, i):
        """[B, N1, S1, X] -> [B, N2, G * rows, X] of tile i: a group of heads is just more rows."""
        t = t[:, :, self.rows(i)].to(self.dtype)
        return t.reshape(self.B, self.N2, -1, t.shape[-1])

    def keys(self, t, j):
        return t[:, :, self.cols(j)].to(self.dtype)

    def scores(self, qi, kj, i, j):
        s = torch.matmul(qi * self.scale, kj.transpose(-1, -2))
        hidden = self.hidden(i, j)
        return s if hidden is None else s.masked_fill(hidden.repeat(self.G, 1), -math.inf)

    def hidden(self, i, j):
        mode, left, right = self.mask
        if mode == 0:
            return None
        r, c = self.rows(i), self.cols(j)
        ahead = torch.arange(c.start, c.stop)[None] - torch.arange(r.start, r.stop)[:, None] - (self.S2 - self.S1)
        if mode == 3:
            return ahead > 0
        hidden = torch.zeros_like(ahead, dtype=torch.bool)
        if left != -1:
            hidden |= ahead < -left
        if right != -1:
            hidden |= ahead > right
        return hidden


def _rescale(m_old, m_new):
    return torch.exp(m_old - torch.where(m_new == -math.inf, torch.zeros_like(m_new), m_new))


def online_softmax_update(state, scores, values):
    m, l, acc = state
    m_new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
    ones = torch.ones((*values.shape[:-1], 1), dtype=acc.dtype)
    both = torch.cat([acc, l], dim=-1) * _rescale(m, m_new)
    both = both + torch.matmul(_rescale(scores, m_new), torch.cat([values.to(acc.dtype), ones], dim=-1))
    return m_new, both[..., -1:], both[..., :-1]


def merge_states(a, b):
    m = torch.maximum(a[0], b[0])
    fa, fb = _rescale(a[0], m), _rescale(b[0], m)
    return m, fa * a[1] + fb * b[1], fa * a[2] + fb * b[2]


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    delta = seq_kv - seq_q
    tiles = []
    for i in range(-(-seq_q // block_q)):
        first_row, last_row = i * block_q, min(seq_q, (i + 1) * block_q) - 1
        for j in range(-(-seq_kv // block_kv)):
            first_col, last_col = j * block_kv, min(seq_kv, (j + 1) * block_kv) - 1
            if mask_mode == 3 and first_col > last_row + delta:
                break
            if mask_mode == 4:
                if win_right != -1 and first_col > last_row + delta + win_right:
                    break
                if win_left != -1 and last_col < first_row + delta - win_left:
                    continue
            tiles.append((i, j))
    return tiles


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    p = Problem(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv)
    attn_out = torch.zeros(p.B, p.N1, p.S1, p.Dv, dtype=v.dtype)
    softmax_lse = torch.full((p.B, p.N1, p.S1), math.inf, dtype=torch.float32)
    for i in range(-(-p.S1 // block_q)):
        qi = p.queries(q, i)
        m = qi.new_full((*qi.shape[:-1], 1), -math.inf)
        state = (m, torch.zeros_like(m), qi.new_zeros(*qi.shape[:-1], p.Dv))
        for j in [j for ii, j in p.tiles if ii == i]:
            state = online_softmax_update(state, p.scores(qi, p.keys(k, j), i, j), p.keys(v, j))
        m, l, acc = state
        dark = l == 0
        shape = (p.B, p.N1, -1)
        attn_out[:, :, p.rows(i)] = (acc / l.masked_fill(dark, 1)).reshape(*shape, p.Dv).to(v.dtype)
        softmax_lse[:, :, p.rows(i)] = (m + torch.log(l)).masked_fill(dark, math.inf).reshape(shape)
    return attn_out, softmax_lse


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    p = Problem(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv)
    delta = (dout.to(p.dtype) * attn_out.to(p.dtype)).sum(-1, keepdim=True)

    def weights_and_ds(i, j):
        qi, kj, doi = p.queries(q, i), p.keys(k, j), p.queries(dout, i)
        w = torch.exp(p.scores(qi, kj, i, j) - p.queries(softmax_lse.unsqueeze(-1), i))
        ds = w * (torch.matmul(doi, p.keys(v, j).transpose(-1, -2)) - p.queries(delta, i))
        return qi, kj, doi, w, ds

    dk, dv = torch.zeros(k.shape, dtype=k.dtype), torch.zeros(v.shape, dtype=v.dtype)
    for j in range(-(-p.S2 // block_kv)):
        rows = [i for i, jj in p.tiles if jj == j]
        gk = gv = 0
        for i in rows:
            qi, _, doi, w, ds = weights_and_ds(i, j)
            gv = gv + torch.matmul(w.transpose(-1, -2), doi)
            gk = gk + torch.matmul(ds.transpose(-1, -2), qi)
        if rows:
            dk[:, :, p.cols(j)], dv[:, :, p.cols(j)] = (gk * p.scale).to(k.dtype), gv.to(v.dtype)
    dq = torch.zeros(q.shape, dtype=q.dtype)
    for i in range(-(-p.S1 // block_q)):
        cols = [j for ii, j in p.tiles if ii == i]
        gq = 0
        for j in cols:
            _, kj, _, _, ds = weights_and_ds(i, j)
            gq = gq + torch.matmul(ds, kj)
        if cols:
            dq[:, :, p.rows(i)] = (gq * p.scale).reshape(p.B, p.N1, -1, p.D).to(q.dtype)
    return dq, dk, dv


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.kw = dict(scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        out, lse = flash_attention_forward(q, k, v, **ctx.kw)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        grads = flash_attention_backward(*ctx.saved_tensors[:3], dout, *ctx.saved_tensors[3:], **ctx.kw)
        return *grads, None, None, None, None, None, None


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim % num_heads must be 0")
        self.num_heads = num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        b, n, c = x.shape
        split = [f(x).reshape(b, n, self.num_heads, c // self.num_heads).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj)]
        out, _ = FlashAttentionFunction.apply(*split, None, 0, -1, -1, self.block_size, self.block_size)
        return self.out_proj(out.transpose(1, 2).reshape(b, n, c))


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    attn_out = q.new_zeros(*q.shape[:2], v.shape[-1], dtype=v.dtype)
    softmax_lse = torch.full((q.shape[1], q.shape[0]), torch.inf)
    for n in range(len(cu_seqlens_q) - 1):
        qs, ks = slice(*cu_seqlens_q[n : n + 2].tolist()), slice(*cu_seqlens_kv[n : n + 2].tolist())
        if qs.stop > qs.start and ks.stop > ks.start:
            o, lse = flash_attention_forward(
                q[qs].swapaxes(0, 1).unsqueeze(0), k[ks].swapaxes(0, 1).unsqueeze(0), v[ks].swapaxes(0, 1).unsqueeze(0),
                scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
            attn_out[qs], softmax_lse[:, qs] = o.squeeze(0).swapaxes(0, 1), lse.squeeze(0)
    return attn_out, softmax_lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    q_bytes = o_bytes = seq_q * head_dim * bytes_per_element
    kv_bytes = 2 * seq_kv * head_dim * bytes_per_element
    per_head = q_bytes + math.ceil(seq_q / block_q) * kv_bytes + o_bytes + seq_q * 4
    return {"hbm_bytes": per_head * batch * num_heads, "flops": 4 * seq_q * seq_kv * head_dim * batch * num_heads}
