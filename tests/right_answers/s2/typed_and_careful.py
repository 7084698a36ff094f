"""Stage 2 with every shape written down and asserted. Slow to type, hard to get wrong."""
from typing import Optional

import numpy as np
import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor, Tensor]
Tile = tuple[int, int]
MINUS_INFINITY: float = -np.inf


def softmax_state(*, like: Tensor, value_dim: int) -> State:
    """The neutral state for rows shaped like ``like`` [..., Q, K]."""
    row_shape = like.shape[:-1]
    row_max = torch.full(row_shape + (1,), MINUS_INFINITY, dtype=like.dtype)
    row_sum = torch.zeros(row_shape + (1,), dtype=like.dtype)
    acc = torch.zeros(row_shape + (value_dim,), dtype=like.dtype)
    return row_max, row_sum, acc


def exp_difference(x: Tensor, row_max: Tensor) -> Tensor:
    """exp(x - row_max), where -inf - (-inf) counts as -inf."""
    difference: Tensor = x - row_max
    difference = torch.where(torch.isnan(difference), torch.full_like(difference, MINUS_INFINITY), difference)
    return torch.exp(difference)


def online_softmax_update(state: State, scores: Tensor, values: Tensor) -> State:
    row_max, row_sum, acc = state
    assert scores.shape[-2] == row_max.shape[-2] == acc.shape[-2], "one row of state per query"
    assert scores.shape[-1] == values.shape[-2], "one value per key"
    assert acc.shape[-1] == values.shape[-1]
    tile_max: Tensor = scores.max(dim=-1, keepdim=True).values
    new_max: Tensor = torch.maximum(row_max, tile_max)
    weights: Tensor = exp_difference(scores, new_max)
    correction: Tensor = exp_difference(row_max, new_max)
    new_sum: Tensor = row_sum * correction + weights.sum(dim=-1, keepdim=True)
    new_acc: Tensor = acc * correction + torch.matmul(weights, values.to(weights.dtype))
    assert new_max.shape == row_max.shape and new_sum.shape == row_sum.shape and new_acc.shape == acc.shape
    return new_max, new_sum, new_acc


def merge_states(a: State, b: State) -> State:
    row_max: Tensor = torch.maximum(a[0], b[0])
    weight_a: Tensor = exp_difference(a[0], row_max)
    weight_b: Tensor = exp_difference(b[0], row_max)
    return row_max, weight_a * a[1] + weight_b * b[1], weight_a * a[2] + weight_b * b[2]


def finish(state: State) -> tuple[Tensor, Tensor]:
    row_max, row_sum, acc = state
    no_key: Tensor = row_sum == 0.0
    out: Tensor = torch.where(no_key, torch.zeros_like(acc), acc / row_sum)
    lse: Tensor = torch.where(no_key, torch.full_like(row_max, np.inf), row_max + torch.log(row_sum))
    return out, lse.squeeze(-1)


def key_bounds(query: int, seq_q: int, seq_kv: int, mask_mode: int, win_left: int, win_right: int) -> tuple[int, int]:
    """The keys [begin, end) that a query sees."""
    assert mask_mode in (0, 3, 4), f"unknown mask_mode {mask_mode}"
    own_key: int = query + seq_kv - seq_q
    begin, end = 0, seq_kv
    if mask_mode == 3:
        end = own_key + 1
    if mask_mode == 4 and win_right >= 0:
        end = own_key + win_right + 1
    if mask_mode == 4 and win_left >= 0:
        begin = own_key - win_left
    return max(begin, 0), min(end, seq_kv)


def visible_tiles(
    seq_q: int, seq_kv: int, block_q: int, block_kv: int, mask_mode: int = 0, win_left: int = -1, win_right: int = -1
) -> list[Tile]:
    tiles: list[Tile] = []
    number_of_rows: int = (seq_q + block_q - 1) // block_q
    for i in range(number_of_rows):
        first: int = i * block_q
        last: int = min(first + block_q, seq_q) - 1
        # begin and end both grow with the query, so the two border rows decide
        begin, _ = key_bounds(first, seq_q, seq_kv, mask_mode, win_left, win_right)
        _, end = key_bounds(last, seq_q, seq_kv, mask_mode, win_left, win_right)
        if begin >= end:
            continue
        for j in range(begin // block_kv, (end + block_kv - 1) // block_kv):
            tiles.append((i, j))
    return tiles


def visibility(rows: Tensor, cols: Tensor, seq_q: int, seq_kv: int, mask_mode: int, win_left: int, win_right: int) -> Tensor:
    """bool [rows, cols], True where the query may look."""
    bounds = [key_bounds(int(r), seq_q, seq_kv, mask_mode, win_left, win_right) for r in rows]
    begin = torch.tensor([b for b, _ in bounds]).unsqueeze(1)
    end = torch.tensor([e for _, e in bounds]).unsqueeze(1)
    return (cols.unsqueeze(0) >= begin) & (cols.unsqueeze(0) < end)


def repeat_heads(t: Tensor, heads: int) -> Tensor:
    """[B, N2, S, X] -> [B, heads, S, X]: kv head n serves the query heads n * group ... (n + 1) * group - 1."""
    batch, kv_heads, seq, dim = t.shape
    assert heads % kv_heads == 0, "query heads must be a multiple of kv heads"
    return t.unsqueeze(2).expand(batch, kv_heads, heads // kv_heads, seq, dim).reshape(batch, heads, seq, dim)


def compute_dtype(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32


def flash_attention_forward(
    q: Tensor, k: Tensor, v: Tensor, *, scale: Optional[float] = None, mask_mode: int = 0,
    win_left: int = -1, win_right: int = -1, block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor]:
    batch, heads, seq_q, head_dim = q.shape
    _, kv_heads, seq_kv, value_dim = v.shape
    assert k.shape == (batch, kv_heads, seq_kv, head_dim), f"k has shape {tuple(k.shape)}"
    if scale is None:
        scale = float(1.0 / np.sqrt(head_dim))
    dtype = compute_dtype(q)
    out: Tensor = torch.zeros((batch, heads, seq_q, value_dim), dtype=dtype)
    lse: Tensor = torch.full((batch, heads, seq_q), np.inf, dtype=dtype)
    by_row: dict[int, list[int]] = {}
    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        by_row.setdefault(i, []).append(j)
    for i, columns in by_row.items():
        q_from, q_to = i * block_q, min(i * block_q + block_q, seq_q)
        q_tile: Tensor = q[:, :, q_from:q_to, :].to(dtype)
        state: Optional[State] = None
        for j in columns:
            k_from, k_to = j * block_kv, min(j * block_kv + block_kv, seq_kv)
            k_tile: Tensor = repeat_heads(k[:, :, k_from:k_to, :].to(dtype), heads)
            v_tile: Tensor = repeat_heads(v[:, :, k_from:k_to, :].to(dtype), heads)
            scores: Tensor = torch.matmul(q_tile, k_tile.transpose(-2, -1)) * scale
            assert scores.shape == (batch, heads, q_to - q_from, k_to - k_from)
            if mask_mode != 0:
                seen = visibility(torch.arange(q_from, q_to), torch.arange(k_from, k_to), seq_q, seq_kv, mask_mode, win_left, win_right)
                scores = torch.where(seen, scores, torch.full_like(scores, MINUS_INFINITY))
            if state is None:
                state = softmax_state(like=scores, value_dim=value_dim)
            state = online_softmax_update(state, scores, v_tile)
        assert state is not None
        out[:, :, q_from:q_to, :], lse[:, :, q_from:q_to] = finish(state)
    return out.to(v.dtype), lse.to(torch.float32)


class FlashAttentionV1(nn.Module):
    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256) -> None:
        super().__init__()
        if num_heads <= 0 or hidden_dim % num_heads != 0:
            raise ValueError(f"hidden_dim ({hidden_dim}) must be a positive multiple of num_heads ({num_heads})")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)

    def split_heads(self, t: Tensor) -> Tensor:
        batch, seq, _ = t.shape
        t = t.view(batch, seq, self.num_heads, self.head_dim).transpose(1, 2)
        assert t.shape == (batch, self.num_heads, seq, self.head_dim)
        return t

    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim == 3 and x.shape[-1] == self.hidden_dim, f"x has shape {tuple(x.shape)}"
        batch, seq, _ = x.shape
        q, k, v = self.split_heads(self.q_proj(x)), self.split_heads(self.k_proj(x)), self.split_heads(self.v_proj(x))
        out, _lse = FlashAttentionFunction.apply(q, k, v, None, 0, -1, -1, self.block_size, self.block_size)
        merged = out.transpose(1, 2).contiguous().view(batch, seq, self.hidden_dim)
        return self.out_proj(merged)


def flash_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor, *,
    scale: Optional[float] = None, mask_mode: int = 0, win_left: int = -1, win_right: int = -1,
    block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, seq_q, head_dim = q.shape
    _, kv_heads, seq_kv, value_dim = v.shape
    assert dout.shape == attn_out.shape == (batch, heads, seq_q, value_dim)
    assert softmax_lse.shape == (batch, heads, seq_q)
    if scale is None:
        scale = float(1.0 / np.sqrt(head_dim))
    dtype = compute_dtype(q)
    group: int = heads // kv_heads
    dq: Tensor = torch.zeros((batch, heads, seq_q, head_dim), dtype=dtype)
    dk: Tensor = torch.zeros((batch, kv_heads, seq_kv, head_dim), dtype=dtype)
    dv: Tensor = torch.zeros((batch, kv_heads, seq_kv, value_dim), dtype=dtype)
    row_dot: Tensor = (dout.to(dtype) * attn_out.to(dtype)).sum(dim=-1, keepdim=True)
    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        q_from, q_to = i * block_q, min(i * block_q + block_q, seq_q)
        k_from, k_to = j * block_kv, min(j * block_kv + block_kv, seq_kv)
        q_tile = q[:, :, q_from:q_to].to(dtype)
        do_tile = dout[:, :, q_from:q_to].to(dtype)
        k_tile = repeat_heads(k[:, :, k_from:k_to].to(dtype), heads)
        v_tile = repeat_heads(v[:, :, k_from:k_to].to(dtype), heads)
        p = torch.exp(torch.matmul(q_tile, k_tile.transpose(-2, -1)) * scale - softmax_lse[:, :, q_from:q_to].to(dtype).unsqueeze(-1))
        if mask_mode != 0:
            seen = visibility(torch.arange(q_from, q_to), torch.arange(k_from, k_to), seq_q, seq_kv, mask_mode, win_left, win_right)
            p = torch.where(seen, p, torch.zeros_like(p))
        dp = torch.matmul(do_tile, v_tile.transpose(-2, -1))
        ds = p * (dp - row_dot[:, :, q_from:q_to])
        assert p.shape == dp.shape == ds.shape == (batch, heads, q_to - q_from, k_to - k_from)
        dv_tile = torch.matmul(p.transpose(-2, -1), do_tile)
        dk_tile = torch.matmul(ds.transpose(-2, -1), q_tile) * scale
        dq[:, :, q_from:q_to] += torch.matmul(ds, k_tile) * scale
        dk[:, :, k_from:k_to] += dk_tile.view(batch, kv_heads, group, k_to - k_from, head_dim).sum(dim=2)
        dv[:, :, k_from:k_to] += dv_tile.view(batch, kv_heads, group, k_to - k_from, value_dim).sum(dim=2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, v: Tensor, scale: Optional[float] = None, mask_mode: int = 0,
        win_left: int = -1, win_right: int = -1, block_q: int = 128, block_kv: int = 128,
    ) -> tuple[Tensor, Tensor]:
        attn_out, softmax_lse = flash_attention_forward(
            q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, block_q=block_q, block_kv=block_kv
        )
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.scale, ctx.mask_mode, ctx.win_left, ctx.win_right = scale, mask_mode, win_left, win_right
        ctx.block_q, ctx.block_kv = block_q, block_kv
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    def backward(ctx, dout: Tensor, dlse: Optional[Tensor]):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(
            q, k, v, dout, attn_out, softmax_lse, scale=ctx.scale, mask_mode=ctx.mask_mode,
            win_left=ctx.win_left, win_right=ctx.win_right, block_q=ctx.block_q, block_kv=ctx.block_kv,
        )
        return dq, dk, dv, None, None, None, None, None, None


def flash_attention_varlen(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor, *, scale: Optional[float] = None,
    mask_mode: int = 0, block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor]:
    total_q, heads, _ = q.shape
    assert cu_seqlens_q.shape == cu_seqlens_kv.shape, "as many key sequences as query sequences"
    assert int(cu_seqlens_q[-1]) == total_q and int(cu_seqlens_kv[-1]) == k.shape[0]
    attn_out: Tensor = torch.zeros((total_q, heads, v.shape[-1]), dtype=v.dtype)
    softmax_lse: Tensor = torch.full((heads, total_q), np.inf, dtype=torch.float32)
    for n in range(cu_seqlens_q.shape[0] - 1):
        q_from, q_to = int(cu_seqlens_q[n]), int(cu_seqlens_q[n + 1])
        k_from, k_to = int(cu_seqlens_kv[n]), int(cu_seqlens_kv[n + 1])
        if q_to == q_from:
            continue
        out, lse = flash_attention_forward(
            q[q_from:q_to].transpose(0, 1).unsqueeze(0), k[k_from:k_to].transpose(0, 1).unsqueeze(0),
            v[k_from:k_to].transpose(0, 1).unsqueeze(0), scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        attn_out[q_from:q_to] = out.squeeze(0).transpose(0, 1)
        softmax_lse[:, q_from:q_to] = lse.squeeze(0)
    return attn_out, softmax_lse


def flash_traffic(
    batch: int, num_heads: int, seq_q: int, seq_kv: int, head_dim: int, block_q: int, block_kv: int, bytes_per_element: int
) -> dict[str, int]:
    query_tiles: int = int(np.ceil(seq_q / block_q))
    q_read: int = seq_q * head_dim * bytes_per_element
    o_written: int = seq_q * head_dim * bytes_per_element
    kv_read: int = query_tiles * 2 * seq_kv * head_dim * bytes_per_element
    lse_written: int = seq_q * 4
    return {
        "flops": batch * num_heads * 4 * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (q_read + o_written + kv_read + lse_written),
    }
