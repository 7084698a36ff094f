"""Stage 2 without a running maximum in sight: every tile gets its own softmax and log-sum-exp from the library, and
tiles are merged as weighted means with logaddexp. States are turned into (mean, lse) and back at the border."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def to_lse(state):
    m, l, acc = state
    lse = torch.where(l > 0, m + torch.log(l), -math.inf)
    return lse, acc / torch.where(l > 0, l, 1.0)


def from_lse(row_max, lse, mean):
    total = torch.where(lse > -math.inf, torch.exp(lse - row_max), 0.0)
    return row_max, total, mean * total


def blend(lse_a, mean_a, lse_b, mean_b):
    lse = torch.logaddexp(lse_a, lse_b)
    ref = lse.masked_fill(lse == -math.inf, 0.0)
    return lse, torch.exp(lse_a - ref) * mean_a + torch.exp(lse_b - ref) * mean_b


def tile_softmax(scores, values):
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    weights = F.softmax(scores, dim=-1).masked_fill(lse == -math.inf, 0.0)
    return lse, torch.matmul(weights, values)


def online_softmax_update(state, scores, values):
    row_max = torch.maximum(state[0], scores.max(-1, keepdim=True).values)
    lse, mean = blend(*to_lse(state), *tile_softmax(scores, values.to(scores.dtype)))
    return from_lse(row_max, lse, mean)


def merge_states(a, b):
    return from_lse(torch.maximum(a[0], b[0]), *blend(*to_lse(a), *to_lse(b)))


def limits(seq_q, seq_kv, mask_mode, win_left, win_right):
    d = seq_kv - seq_q
    left = d - win_left if mask_mode == 4 and win_left >= 0 else -(10**9)
    right = d if mask_mode == 3 else d + win_right if mask_mode == 4 and win_right >= 0 else 10**9
    return left, right


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    left, right = limits(seq_q, seq_kv, mask_mode, win_left, win_right)
    if seq_q == 0 or seq_kv == 0:
        return []
    top = torch.arange(0, seq_q, block_q)
    bottom = (top + block_q).clamp(max=seq_q) - 1
    west = torch.arange(0, seq_kv, block_kv)
    east = (west + block_kv).clamp(max=seq_kv) - 1
    seen = (west[None] - bottom[:, None] <= right) & (east[None] - top[:, None] >= left)
    return [(i, j) for i, j in seen.nonzero().tolist()]


def bias(i0, i1, j0, j1, left, right, dtype):
    """0 where visible, -inf where hidden; added to the scores."""
    d = torch.arange(j0, j1).view(1, -1) - torch.arange(i0, i1).view(-1, 1)
    return torch.zeros(d.shape, dtype=dtype).masked_fill_((d < left) | (d > right), -math.inf)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    n1, s1, d = q.shape[1:]
    n2, s2, dv = v.shape[1:]
    scale = d**-0.5 if scale is None else scale
    work = torch.promote_types(q.dtype, torch.float32)
    left, right = limits(s1, s2, mask_mode, win_left, win_right)
    lse = torch.full((*q.shape[:3], 1), -math.inf, dtype=work)
    out = torch.zeros(*q.shape[:3], dv, dtype=work)
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        a, b = i * block_q, min(s1, i * block_q + block_q)
        c, e = j * block_kv, min(s2, j * block_kv + block_kv)
        kt = k[:, :, c:e].to(work).repeat_interleave(n1 // n2, 1)
        vt = v[:, :, c:e].to(work).repeat_interleave(n1 // n2, 1)
        s = torch.matmul(q[:, :, a:b].to(work) * scale, kt.transpose(-2, -1)) + bias(a, b, c, e, left, right, work)
        lse[:, :, a:b], out[:, :, a:b] = blend(lse[:, :, a:b], out[:, :, a:b], *tile_softmax(s, vt))
    lse = lse.masked_fill(lse == -math.inf, math.inf)
    return out.to(v.dtype), lse.squeeze(-1).to(torch.float32)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("bad number of heads")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.block_size = block_size
        for name in "q_proj", "k_proj", "v_proj", "out_proj":
            self.add_module(name, nn.Linear(hidden_dim, hidden_dim))

    def forward(self, x):
        q, k, v = (torch.stack(f(x).split(self.head_dim, -1), 1) for f in (self.q_proj, self.k_proj, self.v_proj))
        o = FlashAttentionFunction.apply(q, k, v, None, 0, -1, -1, self.block_size, self.block_size)[0]
        return self.out_proj(torch.cat(o.unbind(1), -1))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    n1, s1, d = q.shape[1:]
    n2, s2, dv = v.shape[1:]
    scale = d**-0.5 if scale is None else scale
    work = torch.promote_types(q.dtype, torch.float32)
    left, right = limits(s1, s2, mask_mode, win_left, win_right)
    dot = torch.einsum("bhqd,bhqd->bhq", dout.to(work), attn_out.to(work)).unsqueeze(-1)
    gq = torch.zeros(q.shape, dtype=work)
    gk = torch.zeros(q.shape[0], n1, s2, d, dtype=work)
    gv = torch.zeros(q.shape[0], n1, s2, dv, dtype=work)
    for i, j in visible_tiles(s1, s2, block_q, block_kv, mask_mode, win_left, win_right):
        a, b = i * block_q, min(s1, i * block_q + block_q)
        c, e = j * block_kv, min(s2, j * block_kv + block_kv)
        kt = k[:, :, c:e].to(work).repeat_interleave(n1 // n2, 1)
        vt = v[:, :, c:e].to(work).repeat_interleave(n1 // n2, 1)
        qt, gt = q[:, :, a:b].to(work) * scale, dout[:, :, a:b].to(work)
        s = torch.matmul(qt, kt.transpose(-2, -1)) + bias(a, b, c, e, left, right, work)
        p = torch.exp(s - softmax_lse[:, :, a:b, None].to(work))
        ds = p * (torch.matmul(gt, vt.transpose(-2, -1)) - dot[:, :, a:b])
        gv[:, :, c:e] += torch.matmul(p.transpose(-2, -1), gt)
        gk[:, :, c:e] += torch.matmul(ds.transpose(-2, -1), qt)
        gq[:, :, a:b] += torch.matmul(ds, kt) * scale
    gk = torch.stack([t.sum(1) for t in gk.split(n1 // n2, 1)], 1)
    gv = torch.stack([t.sum(1) for t in gv.split(n1 // n2, 1)], 1)
    return gq.to(q.dtype), gk.to(k.dtype), gv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        return flash_attention_forward(
            q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, *rest = inputs
        ctx.rest = rest
        ctx.save_for_backward(q, k, v, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, dout, _dlse):
        q, k, v, out, lse = ctx.saved_tensors
        names = ("scale", "mask_mode", "win_left", "win_right", "block_q", "block_kv")
        grads = flash_attention_backward(q, k, v, dout, out, lse, **dict(zip(names, ctx.rest)))
        return grads + (None,) * len(ctx.rest)


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    lens_q, lens_kv = cu_seqlens_q.diff().tolist(), cu_seqlens_kv.diff().tolist()
    parts = []
    for qs, ks, vs in zip(q.split(lens_q), k.split(lens_kv), v.split(lens_kv)):
        o, lse = flash_attention_forward(
            *(t.transpose(0, 1).unsqueeze(0) for t in (qs, ks, vs)),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        parts.append((o[0].transpose(0, 1), lse[0]))
    return torch.cat([o for o, _ in parts]), torch.cat([lse for _, lse in parts], 1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    tiles_q = (seq_q + block_q - 1) // block_q
    q_and_o = 2 * seq_q * head_dim * bytes_per_element
    k_and_v = tiles_q * 2 * seq_kv * head_dim * bytes_per_element
    return {
        "flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (q_and_o + k_and_v + 4 * seq_q),
    }
