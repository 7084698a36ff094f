"""Stage 2 with as little new memory as can be: scratch is allocated once per call and every step works in it
(baddbmm_, bmm with out=, sub_, exp_, mul_, div_)."""
import math

import torch
from torch import nn

NEG = -math.inf


def online_softmax_update(state, scores, values):
    m, l, acc = (t.clone() for t in state)
    p = scores.clone()
    m_new = p.amax(-1, keepdim=True)
    torch.maximum(m_new, m, out=m_new)
    shift = m_new.clone().masked_fill_(m_new == NEG, 0.0)
    m.sub_(shift).exp_()  # now the factor for what was summed before
    p.sub_(shift).exp_()
    l.mul_(m).add_(p.sum(-1, keepdim=True))
    acc.mul_(m).add_(torch.matmul(p, values.to(p.dtype)))
    return m_new, l, acc


def merge_states(a, b):
    m = torch.maximum(a[0], b[0])
    shift = m.clone().masked_fill_(m == NEG, 0.0)
    wa = a[0].clone().sub_(shift).exp_()
    wb = b[0].clone().sub_(shift).exp_()
    return m, torch.addcmul(wa * a[1], wb, b[1]), torch.addcmul(wa * a[2], wb, b[2])


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    big = seq_q + seq_kv
    left, right = big, big
    if mask_mode == 3:
        right = 0
    elif mask_mode == 4:
        left = big if win_left < 0 else win_left
        right = big if win_right < 0 else win_right
    shift, tiles = seq_kv - seq_q, []
    for i in range(math.ceil(seq_q / block_q)):
        a, b = i * block_q, min(i * block_q + block_q, seq_q) - 1
        first, last = max(0, a + shift - left), min(seq_kv - 1, b + shift + right)
        if first <= last:
            tiles.extend((i, j) for j in range(first // block_kv, last // block_kv + 1))
    return tiles


class Mask:
    """Writes a value into the hidden places of a tile [..., rows, cols]."""

    def __init__(self, seq_q, seq_kv, mask_mode, win_left, win_right):
        self.shift = seq_kv - seq_q
        self.left = win_left if mask_mode == 4 and win_left >= 0 else None
        self.right = 0 if mask_mode == 3 else win_right if mask_mode == 4 and win_right >= 0 else None

    def fill_(self, tile, row, col, value):
        n, m = tile.shape[-2:]
        if self.right is not None and col + m - 1 > row + self.shift + self.right:
            tile.masked_fill_(torch.ones(n, m, dtype=torch.bool).triu_(row + self.shift + self.right - col + 1), value)
        if self.left is not None and col < row + n - 1 + self.shift - self.left:
            tile.masked_fill_(torch.ones(n, m, dtype=torch.bool).tril_(row + self.shift - self.left - col - 1), value)
        return tile


def prepared(t, groups, dtype):
    """[B, N, S, X] -> [B * N2, G, S, X] in the working precision, never the caller's own memory."""
    b, n, s, x = t.shape
    return torch.empty(b * groups, n // groups, s, x, dtype=dtype).copy_(t.reshape(b * groups, n // groups, s, x))


@torch.no_grad()
def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    H, G = B * N2, N1 // N2
    alpha = 1 / math.sqrt(D) if scale is None else scale
    work = torch.double if q.dtype == torch.double else torch.float
    q, k, v_ = prepared(q, N2, work), prepared(k, N2, work)[:, 0], prepared(v, N2, work)[:, 0]
    mask = Mask(S1, S2, mask_mode, win_left, win_right)
    out = torch.zeros(H, G, S1, Dv, dtype=work)
    lse = torch.full((H, G, S1), math.inf, dtype=work)
    current, m, l, acc = -1, None, None, None

    def finish():
        if current >= 0:
            rows = slice(current * block_q, min(current * block_q + block_q, S1))
            dead = l == 0
            out[:, :, rows] = acc.div_(l.masked_fill(dead, 1.0)).view(H, G, -1, Dv)
            lse[:, :, rows] = m.add_(l.log_()).masked_fill_(dead, math.inf).view(H, G, -1)

    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        rows = slice(i * block_q, min(i * block_q + block_q, S1))
        cols = slice(j * block_kv, min(j * block_kv + block_kv, S2))
        n, c = rows.stop - rows.start, cols.stop - cols.start
        if i != current:
            finish()
            current = i
            qi = q[:, :, rows].reshape(H, G * n, D)
            m = torch.full((H, G * n, 1), NEG, dtype=work)
            l = torch.zeros(H, G * n, 1, dtype=work)
            acc = torch.zeros(H, G * n, Dv, dtype=work)
        s = torch.empty(H, G * n, c, dtype=work)
        torch.baddbmm(s, qi, k[:, cols].transpose(1, 2), beta=0, alpha=alpha, out=s)
        mask.fill_(s.view(H, G, n, c), rows.start, cols.start, NEG)
        top = torch.maximum(s.amax(-1, keepdim=True), m)
        safe = top.clone().masked_fill_(top == NEG, 0.0)
        m.sub_(safe).exp_()
        s.sub_(safe).exp_()
        l.mul_(m).add_(s.sum(-1, keepdim=True))
        acc.mul_(m).baddbmm_(s, v_[:, cols])
        m = top
    finish()
    return out.view(B, N1, S1, Dv).to(v.dtype), lse.view(B, N1, S1).float()


@torch.no_grad()
def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    H, G = B * N2, N1 // N2
    alpha = 1 / math.sqrt(D) if scale is None else scale
    work = torch.double if q.dtype == torch.double else torch.float
    qw, kw, vw = prepared(q, N2, work), prepared(k, N2, work)[:, 0], prepared(v, N2, work)[:, 0]
    do = prepared(dout, N2, work)
    dsum = do.mul(attn_out.reshape(H, G, S1, Dv)).sum(-1, keepdim=True)
    lse = softmax_lse.reshape(H, G, S1, 1).to(work)
    mask = Mask(S1, S2, mask_mode, win_left, win_right)
    dq, dk, dv = torch.zeros_like(qw), torch.zeros_like(kw), torch.zeros_like(vw)
    for i, j in visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right):
        rows = slice(i * block_q, min(i * block_q + block_q, S1))
        cols = slice(j * block_kv, min(j * block_kv + block_kv, S2))
        n = rows.stop - rows.start
        qi, doi = qw[:, :, rows].reshape(H, G * n, D), do[:, :, rows].reshape(H, G * n, Dv)
        p = torch.bmm(qi, kw[:, cols].transpose(1, 2)).mul_(alpha)
        p.sub_(lse[:, :, rows].reshape(H, G * n, 1))
        mask.fill_(p.view(H, G, n, -1), rows.start, cols.start, NEG)
        p.exp_()
        dv[:, cols].baddbmm_(p.transpose(1, 2), doi)
        ds = torch.bmm(doi, vw[:, cols].transpose(1, 2)).sub_(dsum[:, :, rows].reshape(H, G * n, 1)).mul_(p)
        dk[:, cols].baddbmm_(ds.transpose(1, 2), qi, alpha=alpha)
        dq[:, :, rows].add_(torch.bmm(ds, kw[:, cols]).view(H, G, n, D), alpha=alpha)
    return dq.view(q.shape).to(q.dtype), dk.view(k.shape).to(k.dtype), dv.view(v.shape).to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.kw = {"scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right,
                  "block_q": block_q, "block_kv": block_kv}
        ctx.set_materialize_grads(False)
        o, lse = flash_attention_forward(q, k, v, **ctx.kw)
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, o, lse)
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        if do is None:
            return (None,) * 9
        q, k, v, o, lse = ctx.saved_tensors
        return (*flash_attention_backward(q, k, v, do, o, lse, **ctx.kw), *[None] * 6)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"cannot cut {hidden_dim} into {num_heads} heads")
        self.hidden_dim, self.num_heads, self.block_size = hidden_dim, num_heads, block_size
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        Q, K, V = [p(x).view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj)]
        output = FlashAttentionFunction.apply(Q, K, V, None, 0, -1, -1, self.block_size, self.block_size)[0]
        return self.out_proj(output.transpose(1, 2).reshape(x.shape))


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    out = torch.zeros((q.shape[0], q.shape[1], v.shape[2]), dtype=v.dtype)
    lse = torch.empty(q.shape[1], q.shape[0]).fill_(math.inf)
    cq, ck = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for n in range(len(cq) - 1):
        qs, ks = slice(cq[n], cq[n + 1]), slice(ck[n], ck[n + 1])
        o, l = flash_attention_forward(
            q[qs].transpose(0, 1)[None], k[ks].transpose(0, 1)[None], v[ks].transpose(0, 1)[None],
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        out[qs].copy_(o[0].transpose(0, 1))
        lse[:, qs].copy_(l[0])
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    hbm = 2 * seq_q * head_dim
    hbm += math.ceil(seq_q / block_q) * 2 * seq_kv * head_dim
    hbm *= bytes_per_element
    hbm += 4 * seq_q
    hbm *= batch * num_heads
    return {"flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim, "hbm_bytes": hbm}
