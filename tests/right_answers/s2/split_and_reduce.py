"""Functional: a state per tile, put together with reduce(merge_states); the module differentiates through the Function."""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import torch

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _exp(x: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """exp(x - base) where x is finite, 0 where it is -inf, whatever base is"""
    return torch.where(x == -math.inf, torch.zeros_like(x), torch.exp(x - base))


def merge_states(a: State, b: State) -> State:
    top = torch.maximum(a[0], b[0])
    wa, wb = _exp(a[0], top), _exp(b[0], top)
    return (top, *(x * wa + y * wb for x, y in zip(a[1:], b[1:])))


def _tile_state(scores: torch.Tensor, values: torch.Tensor) -> State:
    top = scores.amax(dim=-1, keepdim=True)
    p = _exp(scores, top)
    return top, p.sum(dim=-1, keepdim=True), p @ values.to(p.dtype)


def online_softmax_update(state: State, scores: torch.Tensor, values: torch.Tensor) -> State:
    return merge_states(state, _tile_state(scores, values))


def visible_tiles(
    seq_q: int, seq_kv: int, block_q: int, block_kv: int, mask_mode: int = 0, win_left: int = -1, win_right: int = -1
) -> list[tuple[int, int]]:
    shift = seq_kv - seq_q
    inf = math.inf
    below, above = {
        0: (inf, inf),
        3: (inf, 0),
        4: (inf if win_left == -1 else win_left, inf if win_right == -1 else win_right),
    }[mask_mode]

    def sees(tile: tuple[int, int]) -> bool:
        i, j = tile
        rows = i * block_q + shift, min((i + 1) * block_q, seq_q) - 1 + shift
        keys = j * block_kv, min((j + 1) * block_kv, seq_kv) - 1
        # key - row takes every whole number from keys[0] - rows[1] to keys[1] - rows[0]
        return keys[0] - rows[1] <= above and keys[1] - rows[0] >= -below

    every = itertools.product(range(math.ceil(seq_q / block_q)), range(math.ceil(seq_kv / block_kv)))
    return list(filter(sees, every))


class _Problem:
    """What forward and backward share: shapes, scale, mask, tiles."""

    def __init__(self, q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv):
        self.seq_q, self.seq_kv = q.shape[2], k.shape[2]
        self.repeat = q.shape[1] // k.shape[1]
        self.scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.block_q, self.block_kv = block_q, block_kv
        self.mode, self.left, self.right = mask_mode, win_left, win_right
        self.tiles = visible_tiles(self.seq_q, self.seq_kv, block_q, block_kv, mask_mode, win_left, win_right)
        self.q, self.k, self.v = q, k, v

    def rows(self, i: int) -> slice:
        return slice(i * self.block_q, min(self.seq_q, (i + 1) * self.block_q))

    def cols(self, j: int) -> slice:
        return slice(j * self.block_kv, min(self.seq_kv, (j + 1) * self.block_kv))

    def queries(self, x: torch.Tensor, i: int) -> torch.Tensor:
        return x[:, :, self.rows(i)].to(self.dtype)

    def keys(self, x: torch.Tensor, j: int) -> torch.Tensor:
        return x[:, :, self.cols(j)].to(self.dtype).repeat_interleave(self.repeat, dim=1)

    def scores(self, i: int, j: int) -> torch.Tensor:
        s = self.queries(self.q, i) @ self.keys(self.k, j).mT * self.scale
        if self.mode == 0:
            return s
        r, c = self.rows(i), self.cols(j)
        off = torch.arange(c.start, c.stop, device=s.device) - self.seq_kv
        off = off - (torch.arange(r.start, r.stop, device=s.device) - self.seq_q).unsqueeze(-1)
        shown = torch.ones_like(off, dtype=torch.bool)
        if self.mode == 3:
            shown = off <= 0
        else:
            if self.right != -1:
                shown = shown & (off <= self.right)
            if self.left != -1:
                shown = shown & (off >= -self.left)
        return torch.where(shown, s, -math.inf)


def _row_states(p: _Problem) -> Iterator[tuple[int, State]]:
    for i, group in itertools.groupby(p.tiles, key=lambda tile: tile[0]):
        yield i, functools.reduce(merge_states, (_tile_state(p.scores(i, j), p.keys(p.v, j)) for _, j in group))


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    p = _Problem(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv)
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    lse = torch.full(q.shape[:3], math.inf, dtype=torch.float32, device=q.device)
    for i, (top, total, acc) in _row_states(p):
        blind = total == 0
        total = total.masked_fill(blind, 1)
        out[:, :, p.rows(i)] = (acc / total).to(out.dtype)
        lse[:, :, p.rows(i)] = (top + total.log()).masked_fill(blind, math.inf).squeeze(-1).float()
    return out, lse


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128,
):
    p = _Problem(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv)
    dq, dk, dv = (torch.zeros(x.shape, dtype=p.dtype, device=x.device) for x in (q, k, v))

    def fold(x):  # sum over the query heads that share a kv head
        return x.unflatten(1, (k.shape[1], p.repeat)).sum(dim=2)

    for i, group in itertools.groupby(p.tiles, key=lambda tile: tile[0]):
        qi, do, o = p.queries(q, i), p.queries(dout, i), p.queries(attn_out, i)
        lse = p.queries(softmax_lse, i).unsqueeze(-1)
        delta = (do * o).sum(dim=-1, keepdim=True)
        for _, j in group:
            w = torch.exp(p.scores(i, j) - lse)
            ds = w * (do @ p.keys(v, j).mT - delta) * p.scale
            dq[:, :, p.rows(i)] += ds @ p.keys(k, j)
            dk[:, :, p.cols(j)] += fold(ds.mT @ qi)
            dv[:, :, p.cols(j)] += fold(w.mT @ do)
    return tuple(grad.to(x.dtype) for grad, x in zip((dq, dk, dv), (q, k, v)))


class FlashAttentionFunction(torch.autograd.Function):
    names = ("scale", "mask_mode", "win_left", "win_right", "block_q", "block_kv")

    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        given = scale, mask_mode, win_left, win_right, block_q, block_kv
        ctx.call = functools.partial(
            flash_attention_backward, **dict(zip(FlashAttentionFunction.names, given, strict=True))
        )
        out, lse = flash_attention_forward(q, k, v, **ctx.call.keywords)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        return ctx.call(q, k, v, dout, out, lse) + (None,) * len(FlashAttentionFunction.names)


class FlashAttentionV1(torch.nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256) -> None:
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim={hidden_dim} cannot be split into {num_heads} heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = torch.nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = torch.nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = torch.nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = torch.nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        out, _ = FlashAttentionFunction.apply(*qkv, None, 0, -1, -1, self.block_size, self.block_size)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype, device=q.device)
    lse = torch.full((q.shape[1], q.shape[0]), math.inf, dtype=torch.float32, device=q.device)
    for (q0, q1), (k0, k1) in zip(itertools.pairwise(cu_seqlens_q.tolist()), itertools.pairwise(cu_seqlens_kv.tolist())):
        if q1 > q0 and k1 > k0:
            swap = lambda x: x.transpose(0, 1).unsqueeze(0)
            o, z = flash_attention_forward(
                swap(q[q0:q1]), swap(k[k0:k1]), swap(v[k0:k1]),
                scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
            )
            out[q0:q1], lse[:, q0:q1] = o[0].transpose(0, 1), z[0]
    return out, lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    once = 2 * seq_q * head_dim
    per_tile = 2 * seq_kv * head_dim
    per_head = (once + math.ceil(seq_q / block_q) * per_tile) * bytes_per_element + 4 * seq_q
    return {"flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim, "hbm_bytes": batch * num_heads * per_head}
