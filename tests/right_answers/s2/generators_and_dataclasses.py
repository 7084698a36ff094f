"""Stage 2 by somebody who likes small objects: a frozen Band knows the mask, a generator walks the tiles, a Running
dataclass holds the state and only becomes the contract's tuple at the edge."""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Span:
    index: int
    start: int
    stop: int

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop)

    def range(self) -> Tensor:
        return torch.arange(self.start, self.stop)


def spans(length: int, block: int) -> Iterator[Span]:
    for index, start in enumerate(range(0, length, block)):
        yield Span(index, start, min(start + block, length))


@dataclass(frozen=True)
class Band:
    """Key j is visible to query i when low <= j - i <= high."""

    low: float
    high: float

    @classmethod
    def of(cls, seq_q: int, seq_kv: int, mask_mode: int, win_left: int, win_right: int) -> Band:
        shift = seq_kv - seq_q
        match mask_mode:
            case 0:
                return cls(-math.inf, math.inf)
            case 3:
                return cls(-math.inf, shift)
            case 4:
                return cls(
                    shift - (math.inf if win_left == -1 else win_left),
                    shift + (math.inf if win_right == -1 else win_right),
                )
        raise ValueError(f"mask_mode {mask_mode} is not one of 0, 3, 4")

    def touches(self, rows: Span, cols: Span) -> bool:
        return cols.start - rows.stop + 1 <= self.high and cols.stop - 1 - rows.start >= self.low

    def covers(self, rows: Span, cols: Span) -> bool:
        return cols.stop - 1 - rows.start <= self.high and cols.start - rows.stop + 1 >= self.low

    def apply(self, scores: Tensor, rows: Span, cols: Span) -> Tensor:
        if self.covers(rows, cols):
            return scores
        gap = cols.range() - rows.range().unsqueeze(-1)
        return scores.masked_fill((gap < self.low).logical_or(gap > self.high), -math.inf)


@dataclass
class Running:
    top: Tensor
    total: Tensor
    mean_times_total: Tensor

    @classmethod
    def empty(cls, rows: torch.Size | tuple[int, ...], width: int, dtype: torch.dtype) -> Running:
        return cls(
            torch.full((*rows, 1), -math.inf, dtype=dtype), torch.zeros(*rows, 1, dtype=dtype), torch.zeros(*rows, width, dtype=dtype)
        )

    @classmethod
    def of_tile(cls, scores: Tensor, values: Tensor) -> Running:
        top = scores.amax(-1, keepdim=True)
        weights = (scores - cls.anchor(top)).exp()
        return cls(top, weights.sum(-1, keepdim=True), weights @ values.to(weights.dtype))

    @staticmethod
    def anchor(top: Tensor) -> Tensor:
        return torch.where(top.isneginf(), torch.zeros_like(top), top)

    def seen_from(self, top: Tensor) -> Running:
        factor = (self.top - self.anchor(top)).exp()
        return replace(self, top=top, total=self.total * factor, mean_times_total=self.mean_times_total * factor)

    def __add__(self, other: Running) -> Running:
        top = torch.maximum(self.top, other.top)
        a, b = self.seen_from(top), other.seen_from(top)
        return Running(top, a.total + b.total, a.mean_times_total + b.mean_times_total)

    def finish(self) -> tuple[Tensor, Tensor]:
        unseen = self.total == 0
        out = self.mean_times_total / self.total.masked_fill(unseen, 1.0)
        return out, (self.top + self.total.log()).masked_fill(unseen, math.inf).squeeze(-1)

    def __iter__(self):
        return iter((self.top, self.total, self.mean_times_total))


def online_softmax_update(state, scores, values):
    return tuple(Running(*state) + Running.of_tile(scores, values))


def merge_states(a, b):
    return tuple(Running(*a) + Running(*b))


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    band = Band.of(seq_q, seq_kv, mask_mode, win_left, win_right)
    grid = itertools.product(spans(seq_q, block_q), spans(seq_kv, block_kv))
    return [(rows.index, cols.index) for rows, cols in grid if band.touches(rows, cols)]


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    batch, heads, seq_q, dim = q.shape
    kv_heads, seq_kv, width = v.shape[1:]
    scale = dim**-0.5 if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    band = Band.of(seq_q, seq_kv, mask_mode, win_left, win_right)
    grouped = q.unflatten(1, (kv_heads, heads // kv_heads))
    attn_out = torch.zeros(*grouped.shape[:-1], width, dtype=v.dtype)
    softmax_lse = torch.full(grouped.shape[:-1], math.inf, dtype=torch.float32)
    for rows in spans(seq_q, block_q):
        mine = grouped[..., rows.slice, :].to(wide)

        def tiles(mine=mine, rows=rows):
            for cols in spans(seq_kv, block_kv):
                if band.touches(rows, cols):
                    keys, values = (t[:, :, None, cols.slice].to(wide) for t in (k, v))
                    yield Running.of_tile(band.apply(mine @ keys.transpose(-2, -1) * scale, rows, cols), values)

        total = reduce(Running.__add__, tiles(), Running.empty(mine.shape[:-1], width, wide))
        out, lse = total.finish()
        attn_out[..., rows.slice, :] = out.to(v.dtype)
        softmax_lse[..., rows.slice] = lse
    return attn_out.flatten(1, 2), softmax_lse.flatten(1, 2)


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim={hidden_dim} is not a multiple of num_heads={num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).movedim(-2, 1) for f in (self.q_proj, self.k_proj, self.v_proj))
        out, _ = FlashAttentionFunction.apply(q, k, v, None, 0, -1, -1, self.block_size, self.block_size)
        return self.out_proj(out.movedim(1, -2).flatten(-2))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    heads, seq_q, dim = q.shape[1:]
    kv_heads, seq_kv, _ = v.shape[1:]
    scale = dim**-0.5 if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    band = Band.of(seq_q, seq_kv, mask_mode, win_left, win_right)
    split = (kv_heads, heads // kv_heads)
    q5, do5, o5, lse4 = (t.unflatten(1, split) for t in (q, dout, attn_out, softmax_lse))
    dq = torch.zeros(q5.shape, dtype=wide)
    dk, dv = torch.zeros(k.shape, dtype=wide), torch.zeros(v.shape, dtype=wide)
    for cols, rows in itertools.product(spans(seq_kv, block_kv), spans(seq_q, block_q)):
        if not band.touches(rows, cols):
            continue
        keys, values = (t[:, :, None, cols.slice].to(wide) for t in (k, v))
        qs, gs, os = (t[..., rows.slice, :].to(wide) for t in (q5, do5, o5))
        scores = band.apply(qs @ keys.mT * scale, rows, cols)
        p = (scores - lse4[..., rows.slice].to(wide).unsqueeze(-1)).exp()
        ds = p.mul(gs @ values.mT - torch.linalg.vecdot(gs, os).unsqueeze(-1)).mul(scale)
        dq[..., rows.slice, :] += ds @ keys
        dk[:, :, cols.slice] += (ds.mT @ qs).sum(2)
        dv[:, :, cols.slice] += (p.mT @ gs).sum(2)
    return dq.flatten(1, 2).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.settings = {
            "scale": scale, "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right,
            "block_q": block_q, "block_kv": block_kv,
        }
        out, lse = flash_attention_forward(q, k, v, **ctx.settings)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        grads = flash_attention_backward(q, k, v, dout, out, lse, **ctx.settings)
        return tuple(itertools.chain(grads, itertools.repeat(None, 6)))


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    def sequences():
        pairs = zip(itertools.pairwise(cu_seqlens_q.tolist()), itertools.pairwise(cu_seqlens_kv.tolist()))
        for (q0, q1), (k0, k1) in pairs:
            tensors = (t.movedim(1, 0)[None] for t in (q[q0:q1], k[k0:k1], v[k0:k1]))
            out, lse = flash_attention_forward(
                *tensors, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv
            )
            yield out[0].movedim(0, 1), lse[0]

    outs, lses = zip(*sequences())
    return torch.cat(outs, 0), torch.cat(lses, 1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    moved = sum(
        2 * (rows.stop - rows.start) * head_dim + sum(2 * (c.stop - c.start) * head_dim for c in spans(seq_kv, block_kv))
        for rows in spans(seq_q, block_q)
    )
    heads = batch * num_heads
    return {"flops": 4 * heads * seq_q * seq_kv * head_dim, "hbm_bytes": heads * (moved * bytes_per_element + 4 * seq_q)}
