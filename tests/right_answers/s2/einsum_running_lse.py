"""einsum on [B, N2, G, S, D]; the forward keeps a normalised accumulator and a running lse (no row_max at all)."""
import torch
from torch import einsum, nn

NEG = float("-inf")


def _finite(m):
    return torch.nan_to_num(m, nan=float("nan"), posinf=float("inf"), neginf=0.0)


def online_softmax_update(state, scores, values):
    m0, l0, a0 = state
    m1 = torch.maximum(m0, scores.amax(-1, keepdim=True))
    b = _finite(m1)
    c, p = (m0 - b).exp(), (scores - b).exp()
    return m1, l0 * c + p.sum(-1, keepdim=True), a0 * c + einsum("...qk,...kd->...qd", p, values.to(p.dtype))


def merge_states(a, b):
    m = torch.stack([a[0], b[0]])
    top = m.amax(0)
    w = (m - _finite(top)).exp()
    return top, (torch.stack([a[1], b[1]]) * w).sum(0), (torch.stack([a[2], b[2]]) * w).sum(0)


def _limits(mask_mode, win_left, win_right):
    if mask_mode == 0:
        return None, None
    if mask_mode == 3:
        return None, 0
    return (None if win_left < 0 else win_left), (None if win_right < 0 else win_right)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left, right = _limits(mask_mode, win_left, win_right)
    off = seq_kv - seq_q
    return [
        (i, j)
        for i in range(-(-seq_q // block_q))
        for j in range(-(-seq_kv // block_kv))
        if (right is None or j * block_kv <= min((i + 1) * block_q, seq_q) - 1 + off + right)
        and (left is None or min((j + 1) * block_kv, seq_kv) - 1 >= i * block_q + off - left)
    ]


def _hidden(r, c, off, left, right, device):
    delta = torch.arange(c.start, c.stop, device=device) - torch.arange(r.start, r.stop, device=device)[:, None] - off
    h = torch.zeros_like(delta, dtype=torch.bool)
    if right is not None:
        h |= delta > right
    if left is not None:
        h |= delta < -left
    return h


def _span(t, block, n):
    return slice(t * block, min((t + 1) * block, n))


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    b, n1, s1, d = q.shape
    n2, s2, dv = v.shape[1:]
    ct = torch.promote_types(q.dtype, torch.float32)
    scale = d**-0.5 if scale is None else scale
    left, right = _limits(mask_mode, win_left, win_right)
    qg = q.unflatten(1, (n2, n1 // n2))
    out = torch.zeros(*qg.shape[:-1], dv, dtype=ct, device=q.device)
    lse = torch.full(qg.shape[:-1], NEG, dtype=ct, device=q.device)
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        r, c = _span(i, block_q, s1), _span(j, block_kv, s2)
        s = einsum("bngid,bnjd->bngij", qg[:, :, :, r].to(ct), k[:, :, c].to(ct)) * scale
        s = s.masked_fill(_hidden(r, c, s2 - s1, left, right, q.device), NEG)
        old = lse[:, :, :, r]
        new = torch.logaddexp(old, torch.logsumexp(s, -1))
        base = _finite(new)[..., None]
        keep = (old[..., None] - base).exp()
        out[:, :, :, r] = out[:, :, :, r] * keep + einsum(
            "bngij,bnje->bngie", (s - base).exp(), v[:, :, c].to(ct)
        )
        lse[:, :, :, r] = new
    lse = torch.where(lse == NEG, -lse, lse)
    return out.flatten(1, 2).to(q.dtype), lse.flatten(1, 2).to(torch.float32)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"{hidden_dim} % {num_heads} != 0")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.num_heads, self.head_dim)) for p in (self.q_proj, self.k_proj, self.v_proj))
        done = []
        for qb in (q * self.head_dim**-0.5).split(self.block_size, 1):
            lse, acc = None, None
            for kb, vb in zip(k.split(self.block_size, 1), v.split(self.block_size, 1)):
                s = einsum("bihd,bjhd->bihj", qb, kb)
                z = s.logsumexp(-1, keepdim=True)
                o = einsum("bihj,bjhd->bihd", (s - z).exp(), vb)
                if lse is None:
                    lse, acc = z, o
                else:
                    share = torch.sigmoid(z - lse)  # exp(z) / (exp(z) + exp(lse))
                    acc, lse = torch.lerp(acc, o, share), torch.logaddexp(lse, z)
            done.append(acc)
        return self.out_proj(torch.cat(done, 1).flatten(-2))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    n1, s1, d = q.shape[1:]
    n2, s2 = k.shape[1:3]
    ct = torch.promote_types(q.dtype, torch.float32)
    scale = d**-0.5 if scale is None else scale
    left, right = _limits(mask_mode, win_left, win_right)
    qg, dog, og, lg = (t.unflatten(1, (n2, n1 // n2)) for t in (q, dout, attn_out, softmax_lse))
    delta = einsum("bngie,bngie->bngi", dog.to(ct), og.to(ct))
    dq, dk, dv = (torch.zeros(t.shape, dtype=ct, device=q.device) for t in (qg, k, v))
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        r, c = _span(i, block_q, s1), _span(j, block_kv, s2)
        qt, dot = qg[:, :, :, r].to(ct), dog[:, :, :, r].to(ct)
        kt, vt = k[:, :, c].to(ct), v[:, :, c].to(ct)
        s = einsum("bngid,bnjd->bngij", qt, kt) * scale - lg[:, :, :, r, None].to(ct)
        p = s.masked_fill(_hidden(r, c, s2 - s1, left, right, q.device), NEG).exp()
        dp = einsum("bngie,bnje->bngij", dot, vt)
        ds = scale * p * (dp - delta[:, :, :, r, None])
        dv[:, :, c] += einsum("bngij,bngie->bnje", p, dot)
        dk[:, :, c] += einsum("bngij,bngid->bnjd", ds, qt)
        dq[:, :, :, r] += einsum("bngij,bnjd->bngid", ds, kt)
    return dq.flatten(1, 2).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.kw = dict(zip(("scale", "mask_mode", "win_left", "win_right", "block_q", "block_kv"),
                          (scale, mask_mode, win_left, win_right, block_q, block_kv)))
        result = flash_attention_forward(q, k, v, **ctx.kw)
        ctx.save_for_backward(q, k, v, *result)
        ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx, *grads):
        q, k, v, o, lse = ctx.saved_tensors
        return (*flash_attention_backward(q, k, v, grads[0], o, lse, **ctx.kw), *[None] * 6)


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    lens_q, lens_kv = cu_seqlens_q.diff().tolist(), cu_seqlens_kv.diff().tolist()
    outs, lses = [], []
    for qs, ks, vs in zip(q.split(lens_q), k.split(lens_kv), v.split(lens_kv)):
        o, z = flash_attention_forward(
            *(t.movedim(0, 1)[None] for t in (qs, ks, vs)),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )  # empty sequences have no tiles: 0 and +inf by themselves
        outs.append(o[0].movedim(0, 1))
        lses.append(z[0])
    return torch.cat(outs), torch.cat(lses, -1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    bn, tiles = batch * num_heads, -(-seq_q // block_q)
    return dict(
        flops=4 * bn * seq_q * seq_kv * head_dim,
        hbm_bytes=bn * (2 * bytes_per_element * head_dim * (seq_q + tiles * seq_kv) + 4 * seq_q),
    )
