"""Stage 2 in base two, the way the device does it: log2(e) goes into the scale, exp2 and log2 do the rest."""
import math

import torch

LOG2E = math.log2(math.e)
LN2 = math.log(2.0)


def _peak(x):
    top = x.amax(dim=-1, keepdim=True)
    return top


def _pow2(x):
    return torch.exp2(x)


def _zero_if_unseen(m):
    return m.where(m > -math.inf, m.new_zeros(()))


def online_softmax_update(state, scores, values):
    # The caller speaks natural units, so the maximum is kept in them and only differences are turned into powers of 2.
    row_max, row_sum, acc = state
    new_max = torch.maximum(row_max, _peak(scores))
    base = _zero_if_unseen(new_max)
    keep = _pow2((row_max - base) * LOG2E)
    p = _pow2((scores - base) * LOG2E)
    return new_max, row_sum * keep + p.sum(dim=-1, keepdim=True), acc * keep + p.matmul(values.to(p.dtype))


def merge_states(a, b):
    new_max = torch.maximum(a[0], b[0])
    base = _zero_if_unseen(new_max)
    fa, fb = (_pow2((s[0] - base) * LOG2E) for s in (a, b))
    return new_max, a[1] * fa + b[1] * fb, a[2] * fa + b[2] * fb


def _key_interval(q_first, q_last, delta, mask_mode, win_left, win_right, seq_kv):
    lo, hi = 0, seq_kv
    if mask_mode == 3:
        hi = q_last + delta + 1
    if mask_mode == 4:
        lo = q_first + delta - win_left if win_left >= 0 else lo
        hi = q_last + delta + win_right + 1 if win_right >= 0 else hi
    return max(lo, 0), min(hi, seq_kv)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    out = []
    for i in range(-(-seq_q // block_q)):
        q_first, q_last = i * block_q, min(seq_q, i * block_q + block_q) - 1
        lo, hi = _key_interval(q_first, q_last, seq_kv - seq_q, mask_mode, win_left, win_right, seq_kv)
        if lo < hi:
            out += [(i, j) for j in range(lo // block_kv, (hi - 1) // block_kv + 1)]
    return out


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scale_log2 = (scale if scale is not None else 1.0 / math.sqrt(D)) * LOG2E
    # the heads of a group become rows of one batched product
    qg = q.reshape(B * N2, N1 // N2, S1, D)
    kg, vg = k.reshape(B * N2, 1, S2, D), v.reshape(B * N2, 1, S2, Dv)
    delta = S2 - S1
    outs, lses = [], []
    for q0 in range(0, S1, block_q):
        q1 = min(q0 + block_q, S1)
        qt = qg[:, :, q0:q1].to(wide)
        m = torch.full((*qt.shape[:3], 1), -math.inf, dtype=wide)
        l = torch.zeros_like(m)
        acc = torch.zeros(*qt.shape[:3], Dv, dtype=wide)
        lo, hi = _key_interval(q0, q1 - 1, delta, mask_mode, win_left, win_right, S2)
        k0 = lo // block_kv * block_kv
        while k0 < hi:
            k1 = min(k0 + block_kv, S2)
            s2 = (qt @ kg[:, :, k0:k1].to(wide).mT) * scale_log2
            if mask_mode:
                gap = torch.arange(k0, k1) - torch.arange(q0, q1).unsqueeze(-1) - delta
                if mask_mode == 3:
                    s2.masked_fill_(gap > 0, -math.inf)
                else:
                    if win_left >= 0:
                        s2.masked_fill_(gap < -win_left, -math.inf)
                    if win_right >= 0:
                        s2.masked_fill_(gap > win_right, -math.inf)
            m_new = torch.maximum(m, _peak(s2))
            base = _zero_if_unseen(m_new)
            p = _pow2(s2 - base)
            keep = _pow2(m - base)
            l = l * keep + p.sum(-1, keepdim=True)
            acc = acc * keep + p @ vg[:, :, k0:k1].to(wide)
            m = m_new
            k0 = k1
        alive = l != 0
        outs.append((acc / l.where(alive, l.new_ones(()))).to(v.dtype))
        lses.append(((m + l.log2()) * LN2).where(alive, l.new_full((), math.inf)).squeeze(-1).float())
    return torch.cat(outs, 2).reshape(B, N1, S1, Dv), torch.cat(lses, 2).reshape(B, N1, S1)


class FlashAttentionV1(torch.nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {hidden_dim}")
        self.hidden_dim, self.num_heads = hidden_dim, num_heads
        self.head_dim, self.block_size = hidden_dim // num_heads, block_size
        make = torch.nn.Linear
        self.q_proj, self.k_proj = make(hidden_dim, hidden_dim), make(hidden_dim, hidden_dim)
        self.v_proj, self.out_proj = make(hidden_dim, hidden_dim), make(hidden_dim, hidden_dim)

    def forward(self, x):
        heads = (*x.shape[:2], self.num_heads, self.head_dim)
        q, k, v = (linear(x).view(heads).transpose(1, 2) for linear in (self.q_proj, self.k_proj, self.v_proj))
        # plain differentiable code: the tiles record their own graph
        out, _ = flash_attention_forward(q, k, v, block_q=self.block_size, block_kv=self.block_size)
        return self.out_proj(out.transpose(1, 2).flatten(-2))


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0,
                             win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scale = scale if scale is not None else 1.0 / math.sqrt(D)
    G, delta = N1 // N2, S2 - S1
    qg, og, gg = (t.reshape(B * N2, G, S1, t.shape[-1]) for t in (q, attn_out, dout))
    kg, vg = k.reshape(B * N2, 1, S2, D), v.reshape(B * N2, 1, S2, Dv)
    lse2 = softmax_lse.reshape(B * N2, G, S1, 1).to(wide) * LOG2E
    dk = torch.zeros(B * N2, 1, S2, D, dtype=wide)
    dv = torch.zeros(B * N2, 1, S2, Dv, dtype=wide)
    dqs = []
    for q0 in range(0, S1, block_q):
        q1 = min(q0 + block_q, S1)
        qt, gt = qg[:, :, q0:q1].to(wide), gg[:, :, q0:q1].to(wide)
        dsum = (gt * og[:, :, q0:q1].to(wide)).sum(-1, keepdim=True)
        dq = torch.zeros_like(qt)
        lo, hi = _key_interval(q0, q1 - 1, delta, mask_mode, win_left, win_right, S2)
        for k0 in range(lo // block_kv * block_kv, hi, block_kv):
            k1 = min(k0 + block_kv, S2)
            kt, vt = kg[:, :, k0:k1].to(wide), vg[:, :, k0:k1].to(wide)
            p = _pow2((qt @ kt.mT) * (scale * LOG2E) - lse2[:, :, q0:q1])
            if mask_mode:
                gap = torch.arange(k0, k1) - torch.arange(q0, q1).unsqueeze(-1) - delta
                shown = gap <= 0 if mask_mode == 3 else torch.ones_like(gap, dtype=torch.bool)
                if mask_mode == 4:
                    shown = shown & (gap >= -win_left if win_left >= 0 else shown)
                    shown = shown & (gap <= win_right if win_right >= 0 else shown)
                p = p.where(shown, p.new_zeros(()))
            ds = p * (gt @ vt.mT - dsum)
            dq = dq + ds @ kt
            dk[:, :, k0:k1] += (ds.mT @ qt).sum(1, keepdim=True)
            dv[:, :, k0:k1] += (p.mT @ gt).sum(1, keepdim=True)
        dqs.append(dq * scale)
    dq = torch.cat(dqs, 2).reshape(q.shape)
    return dq.to(q.dtype), (dk * scale).reshape(k.shape).to(k.dtype), dv.reshape(v.shape).to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        kw = dict(scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv)
        o, lse = flash_attention_forward(q, k, v, **kw)
        ctx.kw = kw
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, _):
        return flash_attention_backward(*ctx.saved_tensors[:3], do, *ctx.saved_tensors[3:], **ctx.kw) + (None,) * 6


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    out = q.new_zeros(q.shape[0], q.shape[1], v.shape[2])
    lse = torch.full((q.shape[1], q.shape[0]), math.inf, dtype=torch.float32)
    for s in range(cu_seqlens_q.numel() - 1):
        qa, qb = cu_seqlens_q[s].item(), cu_seqlens_q[s + 1].item()
        ka, kb = cu_seqlens_kv[s].item(), cu_seqlens_kv[s + 1].item()
        if qb > qa and kb > ka:
            one = (t.movedim(1, 0).unsqueeze(0) for t in (q[qa:qb], k[ka:kb], v[ka:kb]))
            o, l = flash_attention_forward(*one, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
            out[qa:qb], lse[:, qa:qb] = o[0].movedim(0, 1), l[0]
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    heads = batch * num_heads
    elements = 2 * seq_q * head_dim + 2 * seq_kv * head_dim * -(-seq_q // block_q)
    return {"flops": 4 * heads * seq_q * seq_kv * head_dim, "hbm_bytes": heads * (elements * bytes_per_element + 4 * seq_q)}
