"""The forward pass, tile by tile: scores, pse, scale, mask, online softmax, dropout, sink.

out = dropout(softmax(mask(scale * (pse + Q K^T)))) V. The maximum starts at -FLT_MAX, so that a row that sees no key
ends with it; its sum then is +FLT_MAX and its output 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.ascend.fusion.constants import FLT_MAX
from kernels.ascend.fusion.dropout import Kept
from kernels.ascend.fusion.masks import Visibility
from kernels.ascend.numerics import as_on_device, cast
from kernels.ascend.tiling import tile_sizes
from kernels.tiles import span


@dataclass
class Group:
    """Sequences of one query length and one key length, with everything that is added to or taken from their scores."""

    query: Tensor  # [B, N1, Sq, D]
    key: Tensor  # [B, N2, Skv, D]
    value: Tensor  # [B, N2, Skv, Dv]
    visibility: Visibility
    scale: float
    pse: Tensor | None = None  # [1 or B, N1, 1 or Sq, Skv]
    sink: Tensor | None = None  # [N1] float32
    kept: Kept | None = None
    keep_prob: float = 1.0

    def __post_init__(self) -> None:
        self.casts = as_on_device()

    @property
    def folds(self) -> int:
        """B * N2: as many matrix products run at once. A group of query heads stands one below the other."""
        return self.key.shape[0] * self.key.shape[1]

    def keys(self) -> tuple[Tensor, Tensor]:
        """Key and value as [B * N2, Skv, D] float32."""
        return self.key.float().flatten(0, 1), self.value.float().flatten(0, 1)

    def fold(self, x: Tensor, rows: slice) -> Tensor:
        """[B, N1, S, D] -> [B * N2, group * rows, D] float32."""
        return x[:, :, rows].float().reshape(self.folds, -1, x.shape[-1])

    def heads(self, x: Tensor) -> Tensor:
        """[B * N2, group * rows, C] -> [B, N1, rows, C], a view."""
        return x.view(*self.query.shape[:2], -1, x.shape[-1])

    def scores(self, query: Tensor, keys: Tensor, rows: slice, cols: slice) -> Tensor:
        """[B * N2, group * rows, cols], hidden ones -inf."""
        scores = torch.bmm(query, keys[:, cols].mT)
        by_head = self.heads(scores)
        if self.pse is not None:
            by_head += self.pse[..., rows if self.pse.shape[-2] > 1 else slice(None), cols]
        scores *= self.scale
        hidden = self.visibility.hidden(rows, cols, scores.device)
        if hidden is not None:
            by_head.masked_fill_(hidden, -math.inf)
        return scores

    def rounded(self, x: Tensor) -> Tensor:
        """What the matrix unit is given of float32 weights: 16-bit numbers, when asked for the device's numerics."""
        return cast(x, self.query.dtype) if self.casts else x

    def drop(self, weights: Tensor, kept: Tensor | None, cols: slice) -> Tensor:
        """Weights after dropout, in place."""
        if kept is not None:
            self.heads(weights).mul_(kept[..., cols]).div_(self.keep_prob)
        return weights


def attend(group: Group, out: Tensor, row_max: Tensor, row_sum: Tensor) -> None:
    """Fills out [B, N1, Sq, Dv], and row_max and row_sum [B, N1, Sq, 8] with every number eight times."""
    block_q, block_kv = tile_sizes()
    keys, values = group.keys()
    seq_q, seq_kv = group.query.shape[2], group.key.shape[2]
    for i in range(-(-seq_q // block_q)):
        rows = span(i, block_q, seq_q)
        query = group.fold(group.query, rows)
        kept = None if group.kept is None else group.kept.rows(rows)
        acc = query.new_zeros(*query.shape[:2], values.shape[-1])
        top, total = query.new_full((*query.shape[:2], 1), -FLT_MAX), query.new_zeros(*query.shape[:2], 1)
        if group.sink is not None:
            group.heads(top)[:] = group.sink[:, None, None]
            total.fill_(1.0)
        seen = group.visibility.columns(rows, seq_kv)
        for j in range(seen.start // block_kv, -(-seen.stop // block_kv)) if seen else ():
            cols = span(j, block_kv, seq_kv)
            scores = group.scores(query, keys, rows, cols)
            new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            rescale = torch.exp(top - new_top)
            weights = scores.sub_(new_top).exp_()
            total.mul_(rescale).add_(weights.sum(dim=-1, keepdim=True))
            weights = group.rounded(group.drop(weights, kept, cols))
            acc.mul_(rescale).baddbmm_(weights, values[:, cols])
            top = new_top
        invalid = total == 0
        out[:, :, rows] = group.heads(acc.div_(total.masked_fill(invalid, 1.0))).to(out.dtype)
        row_max[:, :, rows] = group.heads(top)
        row_sum[:, :, rows] = group.heads(total.masked_fill(invalid, FLT_MAX))
