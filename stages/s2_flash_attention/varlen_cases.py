"""Packed sequences of different lengths: what is right, and what wrong ideas about their borders compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.attention_ideas import CAUSAL, HEADS, SCALE
from grader.cases import Attention, normal
from grader.compare import Expected
from grader.diagnose import Suspect
from grader.text import Text, say
from grader.wrong_attention import Changes, simulate

from .mistakes import ONLINE, TAILS


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
            Attention(*(x.transpose(0, 1)[None] for x in part), scale=self.scale, mask_mode=self.mask_mode, block_q=self.block,
                      block_kv=self.block)
            for part in cut
        ]  # type: ignore[arg-type]  # fmt: skip

    @cached_property
    def expected(self) -> dict[str, Expected]:
        out, lse = torch.zeros(*self.q.shape[:2], self.v.shape[-1]).double(), torch.full((self.q.shape[1], self.q.shape[0]), math.inf).double()
        tol, lse_tol, at = 0.0, 0.0, 0
        for part, length in zip(self.parts(), self.lengths_q, strict=True):
            if length and part.k.shape[2]:
                out[at : at + length] = part.truth[0][0].transpose(0, 1)
                lse[:, at : at + length] = part.truth[1][0]
                tol, lse_tol = max(tol, part.expected.tol), max(lse_tol, part.expected_lse.tol)
            at += length
        return {"attn_out": Expected("attn_out", out, tol, self.q.dtype), "softmax_lse": Expected("softmax_lse", lse, lse_tol, torch.float32)}

    def describe(self) -> Text:
        line = f"q {list(self.q.shape)} k {list(self.k.shape)} lengths q {list(self.lengths_q)} kv {list(self.lengths_kv)}"
        line += f" mask_mode={self.mask_mode} block={self.block}"
        return say(line, line)


def starts(lengths: Sequence[int]) -> list[int]:
    return [0, *(int(x) for x in np.cumsum(lengths))]


def pack(rng: np.random.Generator, lengths_q: tuple[int, ...], lengths_kv: tuple[int, ...] | None = None, *, heads: int = 2,
         kv_heads: int = 0, dim: int = 8, **fields: Any) -> Packed:  # fmt: skip
    lengths_kv = lengths_kv or lengths_q
    q = normal(rng, sum(lengths_q), heads, dim, spread=1.6)
    k = normal(rng, sum(lengths_kv), kv_heads or heads, dim, spread=1.6)
    return Packed(q, k, normal(rng, sum(lengths_kv), kv_heads or heads, dim), lengths_q, lengths_kv, **fields)


def _by_sequence(changes: Changes, starts_q: Callable[[Packed], list[int]] | None = None,
                 starts_kv: Callable[[Packed], list[int]] | None = None) -> Callable[[Packed], dict[str, Tensor]]:  # fmt: skip
    """Every sequence on its own, with wrong steps inside or wrong borders."""

    def values(case: Packed) -> dict[str, Tensor]:
        out = torch.zeros(*case.q.shape[:2], case.v.shape[-1])
        at = (starts_q or (lambda c: starts(c.lengths_q)))(case)
        for part, start in zip(case.parts(at, starts_kv(case) if starts_kv else None), at, strict=False):
            if part.q.shape[2] and part.k.shape[2]:
                out[start : start + part.q.shape[2]] = simulate(part, changes)["attn_out"][0].transpose(0, 1)
        return {"attn_out": out}

    return values


def _one_sequence(mask: Callable[[Packed], Tensor] | None = None) -> Callable[[Packed], dict[str, Tensor]]:
    """All tokens as one sequence."""

    def values(case: Packed) -> dict[str, Tensor]:
        whole = case.parts([0, case.q.shape[0]], [0, case.k.shape[0]])[0]
        return {"attn_out": simulate(whole, {"visible": lambda c: mask(case)} if mask else {})["attn_out"][0].transpose(0, 1)}

    return values


def _blocks(case: Packed) -> Tensor:
    """Who is in the same sequence as whom, [T1, T2]."""
    ids = [torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)) for lengths in (case.lengths_q, case.lengths_kv)]
    return ids[0][:, None] == ids[1][None, :]


def _global_causal(case: Packed) -> Tensor:
    """The causal mask by positions in the packed tensors."""
    mask = _blocks(case)
    i, j = torch.arange(mask.shape[0])[:, None], torch.arange(mask.shape[1])[None, :]
    return mask & (j <= i + mask.shape[1] - mask.shape[0]) if case.mask_mode == 3 else mask


def _global_top_left(case: Packed) -> Tensor:
    mask = _blocks(case)
    i, j = torch.arange(mask.shape[0])[:, None], torch.arange(mask.shape[1])[None, :]
    return mask & (j <= i) if case.mask_mode == 3 else mask



def _seeing_earlier(case: Packed) -> Tensor:
    ids = [torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)) for lengths in (case.lengths_q, case.lengths_kv)]
    return ids[1][None, :] <= ids[0][:, None]


@cache
def varlen_suspects() -> list[Suspect]:
    inner = [Suspect(id, _by_sequence(changes), loose=loose) for id, changes, loose in [*SCALE, *ONLINE, *TAILS, *HEADS, *CAUSAL]]
    return [
        *inner,
        Suspect("varlen-sequences-mixed", _one_sequence()),
        Suspect("varlen-sequences-mixed", _one_sequence(_seeing_earlier)),
        Suspect("varlen-query-borders-for-keys", _by_sequence({}, starts_kv=lambda c: starts(c.lengths_q))),
        Suspect("varlen-query-borders-for-keys", _by_sequence({}, starts_q=lambda c: starts(c.lengths_kv))),
        Suspect("varlen-last-sequence-missing", _by_sequence({}, starts_q=lambda c: starts(c.lengths_q)[:-1])),
        Suspect("varlen-global-positions", _one_sequence(_global_causal)),
        Suspect("varlen-global-positions", _one_sequence(_global_top_left)),
    ]
