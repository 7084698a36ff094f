"""The same tiles with the hardware's 16-bit casts: FLASHDOJO_NUMERICS=device.

Matrix products read 16-bit operands and add up in float32, so what the softmax hands to them is rounded first: P, not
yet divided by its sum, and dS, not yet scaled. Everything else stays float32 (flash_attn and
flash_attn_grad, op_kernel).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kernels.ascend.numerics import cast
from kernels.ascend.tiling import tile_sizes
from kernels.tiles import Band, band, span, visible_tiles

HIDDEN = torch.finfo(torch.float32).min  # the score of a hidden key; the hardware has no -inf here


def forward(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, scale: float, mask_mode: int, win_left: int, win_right: int
) -> tuple[Tensor, Tensor]:
    """[B, N1, S1, D], [B, N2, S2, D], [B, N2, S2, Dv] -> (float32 output, softmax_lse)."""
    queries, keys, values = _grouped(q, k), k.float()[:, :, None], v.float()[:, :, None]
    seq_q, seq_kv = q.shape[2], k.shape[2]
    limits = band(seq_q, seq_kv, mask_mode, win_left, win_right)
    rows_of = queries.shape[:-1]
    row_max, row_sum = queries.new_full((*rows_of, 1), HIDDEN), queries.new_zeros(*rows_of, 1)
    if sinks is not None:  # it is the first logit that the online softmax has seen
        row_max.copy_(sinks.view(k.shape[1], -1, 1, 1))
        row_sum.fill_(1)
    acc = queries.new_zeros(*rows_of, v.shape[-1])
    block_q, block_kv = tile_sizes()
    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        rows, cols = span(i, block_q, seq_q), span(j, block_kv, seq_kv)
        scores = _scores(queries, keys, rows, cols, limits, scale)
        old_max, part = row_max[..., rows, :], acc[..., rows, :]
        new_max = torch.maximum(old_max, scores.amax(dim=-1, keepdim=True))
        rescale, p = torch.exp(old_max - new_max), torch.exp(scores - new_max)
        row_sum[..., rows, :] = row_sum[..., rows, :] * rescale + p.sum(dim=-1, keepdim=True)
        acc[..., rows, :] = part * rescale + cast(p, q.dtype) @ values[..., cols, :]
        row_max[..., rows, :] = new_max
    seen = row_max > HIDDEN
    out = torch.where(seen, acc / row_sum, 0.0)
    lse = torch.where(seen, row_max + row_sum.log(), math.inf)
    return out.flatten(1, 2), lse.flatten(1, 2).squeeze(-1)


def backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor, *,
    scale: float, mask_mode: int, win_left: int, win_right: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dq, dk, dv) in the dtypes of q, k, v."""
    queries, keys, values = _grouped(q, k), k.float()[:, :, None], v.float()[:, :, None]
    douts, lse = _grouped(dout, k), _grouped(softmax_lse[..., None], k)
    sfmg = (douts * _grouped(attn_out, k)).sum(dim=-1, keepdim=True)
    limits = band(q.shape[2], k.shape[2], mask_mode, win_left, win_right)
    dq, dk, dv = (
        torch.zeros_like(queries),
        torch.zeros_like(k, dtype=torch.float32),
        torch.zeros_like(v, dtype=torch.float32),
    )
    block_q, block_kv = tile_sizes()
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, mask_mode, win_left, win_right):
        rows, cols = span(i, block_q, q.shape[2]), span(j, block_kv, k.shape[2])
        p = torch.exp(_scores(queries, keys, rows, cols, limits, scale) - lse[..., rows, :])
        dout_tile = douts[..., rows, :]
        ds = cast(p * (dout_tile @ values[..., cols, :].mT - sfmg[..., rows, :]), q.dtype)
        dv[:, :, cols] += (cast(p, q.dtype).mT @ dout_tile).sum(dim=2)
        dq[..., rows, :] += ds @ keys[..., cols, :]
        dk[:, :, cols] += (ds.mT @ queries[..., rows, :]).sum(dim=2)
    return (dq.flatten(1, 2) * scale).to(q.dtype), (dk * scale).to(k.dtype), dv.to(v.dtype)


def _grouped(x: Tensor, k: Tensor) -> Tensor:
    """[B, N1, S, D] -> [B, N2, group, S, D] in float32: the query heads of one key/value head side by side."""
    return x.float().unflatten(1, (k.shape[1], -1))


def _scores(queries: Tensor, keys: Tensor, rows: slice, cols: slice, limits: Band, scale: float) -> Tensor:
    scores = (queries[..., rows, :] @ keys[..., cols, :].mT).mul_(scale)
    if limits.cuts(rows, cols):
        scores.masked_fill_(limits.bias(rows, cols, scores) < 0, HIDDEN)
    return scores
