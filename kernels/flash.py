"""FlashAttention in plain PyTorch: the score matrix exists one tile at a time, forward and backward.

Three things make it fast on a CPU (and are what the NPU operator does, too): every tile product runs for all heads at
once, what is elementwise happens in place, and scale and log2(e) go into Q beforehand, so that exp becomes exp2.
"""

from __future__ import annotations

import math
from itertools import groupby
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from kernels.tiles import band, span, visible_tiles

LOG2E = 1 / math.log(2)


@torch.no_grad()
def flash_attention_forward(
    q: Tensor, k: Tensor, v: Tensor, *,
    scale: float | None = None, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
    block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q [B, N1, S1, D], k [B, N2, S2, D], v [B, N2, S2, Dv] -> attn_out [B, N1, S1, Dv], softmax_lse [B, N1, S1].

    softmax_lse is float32; sums run in float32, or float64 for float64 input. A row that sees no key gives 0 and +inf.
    """
    heads_kv, seq_q, seq_kv = k.shape[1], q.shape[2], k.shape[2]
    group = q.shape[1] // heads_kv
    limits = band(seq_q, seq_kv, mask_mode, win_left, win_right)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    queries, keys, values = _fold(q, heads_kv) * (scale * LOG2E), _fold(k, heads_kv), _fold(v, heads_kv)
    out = queries.new_zeros(*queries.shape[:2], v.shape[-1])
    lse = queries.new_full((*queries.shape[:2], 1), math.inf)
    scratch = queries.new_empty(queries.shape[0] * min(block_q, seq_q) * group * min(block_kv, seq_kv))
    visible = visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right)
    for i, tiles in groupby(visible, itemgetter(0)):
        rows = span(i, block_q, seq_q)
        folded = slice(rows.start * group, rows.stop * group)
        query = queries[:, folded]
        acc = torch.zeros_like(out[:, folded], memory_format=torch.contiguous_format)
        row_max = torch.full_like(lse[:, folded], torch.finfo(lse.dtype).min)  # finite: -inf - (-inf) would be nan
        row_sum = torch.zeros_like(row_max)
        for _, j in tiles:
            cols = span(j, block_kv, seq_kv)
            scores = _product(query, keys[:, cols], scratch)
            if limits.cuts(rows, cols):
                scores.unflatten(1, (-1, group)).add_(limits.bias(rows, cols, scores)[:, None])
            new_max = torch.maximum(row_max, scores.amax(dim=-1, keepdim=True))
            rescale = torch.exp2(row_max - new_max)
            p = scores.sub_(new_max).exp2_()
            row_sum.mul_(rescale).add_(p.sum(dim=-1, keepdim=True))
            acc.mul_(rescale).baddbmm_(p, values[:, cols])
            row_max = new_max
        seen = row_sum > 0
        out[:, folded] = acc.div_(row_sum.masked_fill(~seen, 1.0))
        lse[:, folded] = torch.where(seen, (row_max + row_sum.log2()) / LOG2E, math.inf)
    return _unfold(out, q.shape).to(q.dtype), _unfold(lse, q.shape).squeeze(-1).float()


@torch.no_grad()
def flash_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor, *,
    scale: float | None = None, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
    block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dq, dk, dv) in the dtypes of q, k, v, from dout [B, N1, S1, Dv] and what the forward returned.

    P = exp(S - lse) is computed again, tile by tile; then dV = P^T dO, dS = P * (dO V^T - rowsum(dO * O)),
    dQ = scale * dS K, dK = scale * dS^T Q.
    """
    heads_kv, seq_q, seq_kv = k.shape[1], q.shape[2], k.shape[2]
    group = q.shape[1] // heads_kv
    limits = band(seq_q, seq_kv, mask_mode, win_left, win_right)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    queries, keys, values = _fold(q, heads_kv) * (scale * LOG2E), _fold(k, heads_kv), _fold(v, heads_kv)
    douts, lse = _fold(dout, heads_kv), _fold(softmax_lse[..., None], heads_kv).to(queries.dtype) * LOG2E
    d_term = (douts * _fold(attn_out, heads_kv)).sum(dim=-1, keepdim=True)
    dq, dk, dv = (x.new_zeros(x.shape) for x in (queries, keys, values))
    scratch = queries.new_empty(2, queries.shape[0] * min(block_q, seq_q) * group * min(block_kv, seq_kv))

    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        rows, cols = span(i, block_q, seq_q), span(j, block_kv, seq_kv)
        folded = slice(rows.start * group, rows.stop * group)
        query, key, dout_tile = queries[:, folded], keys[:, cols], douts[:, folded]
        scores = _product(query, key, scratch[0])
        if limits.cuts(rows, cols):
            scores.unflatten(1, (-1, group)).add_(limits.bias(rows, cols, scores)[:, None])
        p = scores.sub_(lse[:, folded]).exp2_()
        dv[:, cols] += torch.bmm(p.mT, dout_tile)
        ds = _product(dout_tile, values[:, cols], scratch[1]).sub_(d_term[:, folded]).mul_(p)
        dq[:, folded] += torch.bmm(ds, key)
        dk[:, cols] += torch.bmm(ds.mT, query)
    dq.mul_(scale)
    dk.div_(LOG2E)  # query holds scale * log2(e) already
    return _unfold(dq, q.shape).to(q.dtype), dk.view(k.shape).to(k.dtype), dv.view(v.shape).to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    """apply(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv) -> (attn_out, softmax_lse)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, mask_mode: int = 0,
        win_left: int = -1, win_right: int = -1, block_q: int = 128, block_kv: int = 128,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        ctx.options = {"scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right,
                       "block_q": block_q, "block_kv": block_kv}  # fmt: skip
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **ctx.options)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    def backward(ctx: Any, dout: Tensor, _dlse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        return *flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, **ctx.options), *[None] * 6


class FlashAttentionV1(nn.Module):
    """Multi-head self-attention [B, N, D] -> [B, N, D] with the parameters of StandardAttention, in O(N) memory."""

    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        self.hidden_dim, self.num_heads, self.block_size = hidden_dim, num_heads, block_size
        self.head_dim = hidden_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        out, _ = FlashAttentionFunction.apply(q, k, v, None, 0, -1, -1, self.block_size, self.block_size)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def _fold(x: Tensor, heads_kv: int) -> Tensor:
    """[B, N1, S, D] -> [B * N2, S * group, D]: query heads that share a key/value head become rows of one matrix."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide.unflatten(1, (heads_kv, -1)).transpose(2, 3).flatten(2, 3).flatten(0, 1)


def _product(a: Tensor, b: Tensor, scratch: Tensor) -> Tensor:
    """a [n, R, D] b^T [n, C, D] -> [n, R, C] in scratch: memory that is already there costs no page faults."""
    out = scratch[: a.shape[0] * a.shape[1] * b.shape[1]].view(*a.shape[:2], b.shape[1])
    return torch.bmm(a, b.mT, out=out)


def _unfold(x: Tensor, like: torch.Size) -> Tensor:
    """[B * N2, S * group, D] -> [B, N1, S, D] with B, N1 and S as in like."""
    batch, heads, seq = like[:3]
    heads_kv = x.shape[0] // batch
    return x.view(batch, heads_kv, seq, heads // heads_kv, x.shape[-1]).transpose(2, 3).flatten(1, 2)
