"""Packed sequences of different lengths: what is right, and what wrong ideas about their borders compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.cases import Attention, normal
from grader.checking.compare import Expected
from grader.text import Text, say


@dataclass(frozen=True)
class Packed:
    """q [T1, N1, D], k and v [T2, N2, D]; sequence b has ``lengths_q[b]`` queries and ``lengths_kv[b]`` keys."""

    q: Tensor
    k: Tensor
    v: Tensor
    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    mask_mode: int = 0
    scale: float | None = None
    block: int = 16
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cu_seqlens(self) -> tuple[Tensor, Tensor]:
        return tuple(torch.tensor(starts(lengths), dtype=torch.int32) for lengths in (self.lengths_q, self.lengths_kv))  # type: ignore[return-value]

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"block_q": self.block, "block_kv": self.block}
        if self.mask_mode:
            options["mask_mode"] = self.mask_mode
        if self.scale is not None:
            options["scale"] = self.scale
        return options

    def parts(self, starts_q: Sequence[int] | None = None, starts_kv: Sequence[int] | None = None) -> list[Attention]:
        """The sequences as cases of their own, [1, N, S, D]."""
        sides = starts_q or starts(self.lengths_q), starts_kv or starts(self.lengths_kv)
        cut = [
            (self.q[a:b], self.k[c:d], self.v[c:d])
            for a, b, c, d in zip(sides[0], sides[0][1:], sides[1], sides[1][1:], strict=False)
        ]
        return [
            Attention(q, k, v, self.scale, self.mask_mode, block_q=self.block, block_kv=self.block)
            for q, k, v in ([x.transpose(0, 1)[None] for x in part] for part in cut)
        ]

    @cached_property
    def expected(self) -> dict[str, Expected]:
        out, lse = (
            torch.zeros(*self.q.shape[:2], self.v.shape[-1]).double(),
            torch.full((self.q.shape[1], self.q.shape[0]), math.inf).double(),
        )
        tol, lse_tol, at = 0.0, 0.0, 0
        for part, length in zip(self.parts(), self.lengths_q, strict=True):
            if length and part.k.shape[2]:
                out[at : at + length] = part.truth[0][0].transpose(0, 1)
                lse[:, at : at + length] = part.truth[1][0]
                tol, lse_tol = max(tol, part.expected.tol), max(lse_tol, part.expected_lse.tol)
            at += length
        return {
            "attn_out": Expected("attn_out", out, tol, self.q.dtype),
            "softmax_lse": Expected("softmax_lse", lse, lse_tol, torch.float32),
        }

    def describe(self) -> Text:
        line = (
            f"q {list(self.q.shape)} k {list(self.k.shape)} lengths q {list(self.lengths_q)} kv {list(self.lengths_kv)}"
        )
        line += f" mask_mode={self.mask_mode} block={self.block}"
        return say(line, line)


Make = Callable[[np.random.Generator, int], Packed]


def starts(lengths: Sequence[int]) -> list[int]:
    return [0, *(int(x) for x in np.cumsum(lengths))]


def pack(
    rng: np.random.Generator,
    lengths_q: tuple[int, ...],
    lengths_kv: tuple[int, ...] | None = None,
    *,
    heads: int = 2,
    kv_heads: int = 0,
    dim: int = 8,
    dtype: torch.dtype = torch.float32,
    **fields: Any,
) -> Packed:
    lengths_kv = lengths_kv or lengths_q
    q = normal(rng, sum(lengths_q), heads, dim, dtype=dtype, spread=1.6)
    k, v = (normal(rng, sum(lengths_kv), kv_heads or heads, dim, dtype=dtype, spread=s) for s in (1.6, 1.0))
    return Packed(q, k, v, lengths_q, lengths_kv, **fields)


def packing(*lengths: tuple[int, ...], kv: tuple[tuple[int, ...], ...] = (), **fields: Any) -> Make:
    """Case n packs ``lengths[n]`` queries and ``kv[n]`` keys (as many as queries when left out)."""

    def make(rng: np.random.Generator, n: int) -> Packed:
        n = min(n, len(lengths) - 1)
        return pack(rng, lengths[n], kv[n] if kv else None, **fields)

    return make
