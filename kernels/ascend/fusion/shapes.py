"""What the layouts of npu_fusion_attention mean: every one of them becomes [B, N, S, D] views, TND one per sequence.

BSH [B, S, N * D], SBH [S, B, N * D], BSND, BNSD, and TND [T, N, D], whose sequences end at actual_seq_qlen and
actual_seq_kvlen: Python lists, cumulative, without the leading 0; a repeated value is a sequence of length 0, trailing
zeros are batches that take no part. (Source: torch_npu-npu_fusion_attention.md, input_layout and actual_seq_qlen.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

RANKS = {"BSH": 3, "SBH": 3, "BSND": 4, "BNSD": 4, "TND": 3}


@dataclass(frozen=True)
class Shapes:
    """The sizes of one call. ``ends_q`` and ``ends_kv`` start with 0 and are None unless the layout is TND."""

    layout: str
    batch: int
    heads: int
    heads_kv: int
    seq_q: int  # TND: the longest
    seq_kv: int
    dim: int
    dim_v: int
    ends_q: tuple[int, ...] | None = None
    ends_kv: tuple[int, ...] | None = None

    def of_queries(self, x: Tensor) -> list[Tensor]:
        """Views [B, N, S, D] of the query, the output or their gradients: one, or for TND one per sequence."""
        return self._heads_first(x, self.heads, self.ends_q or ())

    def of_keys(self, x: Tensor) -> list[Tensor]:
        """The same of key, value and their gradients."""
        return self._heads_first(x, self.heads_kv, self.ends_kv or ())

    def of_softmax(self, x: Tensor, softmax_layout: str) -> list[Tensor]:
        """Views [B, N, S, 8] of softmax_max or softmax_sum.

        With TND the shape says (T, N, 8), but unless softmax_layout is "TND" the memory holds one [N, S, 8] block per
        sequence: x[t, n] is then not row t of head n.
        """
        if self.layout != "TND":
            return [x]
        if softmax_layout == "TND":
            return self.of_queries(x)
        flat, width = x.view(-1), 8 * self.heads
        return [flat[a * width : b * width].view(1, self.heads, b - a, 8) for a, b in pairwise(self.ends_q or ())]

    def _heads_first(self, x: Tensor, heads: int, ends: tuple[int, ...]) -> list[Tensor]:
        if self.layout == "BNSD":
            return [x]
        if self.layout == "BSND":
            return [x.transpose(1, 2)]
        if self.layout == "BSH":
            return [x.unflatten(2, (heads, -1)).transpose(1, 2)]
        if self.layout == "SBH":
            return [x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3)]
        return [x[start:end].transpose(0, 1)[None] for start, end in pairwise(ends)]

    def lengths(self) -> list[tuple[int, int]]:
        """(query length, key length) of each group of those views."""
        if self.ends_q is None or self.ends_kv is None:
            return [(self.seq_q, self.seq_kv)]
        return [(b - a, d - c) for (a, b), (c, d) in zip(pairwise(self.ends_q), pairwise(self.ends_kv))]

    def numels(self) -> int:
        """How many weights a dropout mask covers."""
        groups = 1 if self.layout == "TND" else self.batch
        return self.heads * groups * sum(q * kv for q, kv in self.lengths())

    def out_shape(self, query: Tensor) -> tuple[int, ...]:
        """attention_out: the query's shape with the head dimension of the value."""
        last = self.heads * self.dim_v if RANKS[self.layout] == 3 and self.layout != "TND" else self.dim_v
        return (*query.shape[:-1], last)

    def softmax_shape(self, query: Tensor) -> tuple[int, ...]:
        """softmax_max and softmax_sum: every number eight times."""
        if self.layout == "TND":
            return (query.shape[0], self.heads, 8)
        return (self.batch, self.heads, self.seq_q, 8)


def sequence_ends(cumulative: Sequence[int]) -> tuple[int, ...]:
    """(0, 2, 5, 9) of [2, 5, 9, 0, 0]: with the leading 0, without the batches that take no part."""
    ends = [0, *cumulative]
    while len(ends) > 2 and ends[-1] == 0:
        ends.pop()
    return tuple(ends)
