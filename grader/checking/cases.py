"""Attention inputs drawn for a check, with what is right for them: oracle, tolerance, and a line to describe them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from grader.checking.compare import Expected, accumulate_dtype, eps, largest, tolerance
from grader.text import Text, say
from kernels import oracle


@dataclass(frozen=True)
class Shape:
    """B, N1, N2, S1, S2, D, Dv of one case. ``kv_heads``, ``seq_kv``, ``value_dim`` default to their counterparts."""

    batch: int = 1
    heads: int = 2
    kv_heads: int = 0
    seq_q: int = 32
    seq_kv: int = 0
    dim: int = 8
    value_dim: int = 0

    def __post_init__(self) -> None:
        for name, other in (("kv_heads", "heads"), ("seq_kv", "seq_q"), ("value_dim", "dim")):
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(self, other))


@dataclass(frozen=True)
class Attention:
    """One call of an attention function. ``scale`` None means 1/sqrt(D)."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float | None = None
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1
    block_q: int = 16
    block_kv: int = 16
    dout: Tensor | None = None
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def but(self, **changes: Any) -> Self:
        """The same case with other fields and nothing remembered."""
        return replace(self, memo={}, **changes)

    # what the learner's function is called with --------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``flash_attention_forward``; masks and scale only where the case has them."""
        options: dict[str, Any] = {"block_q": self.block_q, "block_kv": self.block_kv}
        if self.scale is not None:
            options["scale"] = self.scale
        if self.mask_mode:
            options["mask_mode"] = self.mask_mode
        if self.mask_mode == 4:
            options.update(win_left=self.win_left, win_right=self.win_right)
        return options

    def geometry(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "mask_mode": self.mask_mode,
            "win_left": self.win_left,
            "win_right": self.win_right,
        }

    # what is right -------------------------------------------------------------------------------------------

    @cached_property
    def factor(self) -> float:
        """The scale that the scores are multiplied by."""
        return 1 / math.sqrt(self.q.shape[-1]) if self.scale is None else self.scale

    @cached_property
    def visible(self) -> Tensor:
        return oracle.visible(self.q.shape[2], self.k.shape[2], self.mask_mode, self.win_left, self.win_right)

    @cached_property
    def group(self) -> int:
        return self.q.shape[1] // self.k.shape[1]

    @cached_property
    def truth(self) -> tuple[Tensor, Tensor]:
        """attn_out and softmax_lse, float64."""
        return oracle.forward(self.q, self.k, self.v, **self.geometry())

    @cached_property
    def logits(self) -> float:
        """A bound of the sum of |q||k| times the scale."""
        if not (self.q.numel() and self.k.numel()):
            return 0.0
        return float((self.q.float().abs() @ self._each(self.k).float().abs().mT).max()) * abs(self.factor)

    def _each(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.group, dim=1) if self.group > 1 else x

    @cached_property
    def plains(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """:meth:`plain` in its two orders."""
        return self.plain(scaled_first=False), self.plain(scaled_first=True)

    def plain(self, *, scaled_first: bool) -> tuple[Tensor, Tensor]:
        """What plain PyTorch gives in the dtype of the sums, rounded once to the dtype of the inputs."""
        dtype = accumulate_dtype(self.q.dtype)
        q, k, v = self.q.to(dtype), self._each(self.k).to(dtype), self._each(self.v).to(dtype)
        scores = (q * self.factor) @ k.mT if scaled_first else (q @ k.mT) * self.factor
        if self.mask_mode:
            scores = scores.masked_fill(~self.visible, -math.inf)
        lse = scores.logsumexp(dim=-1)
        weights = (scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None]).exp()
        return (weights @ v).to(self.q.dtype), lse.masked_fill(lse == -math.inf, math.inf)

    @cached_property
    def expected(self) -> Expected:
        """attn_out."""
        tol = tolerance(
            self.truth[0],
            [out for out, _ in self.plains],
            dtype=self.q.dtype,
            logits=self.logits,
            magnitude=largest(self.v.double().abs()),
        )
        return Expected("attn_out", self.truth[0], tol, self.q.dtype, self.block_q, self.block_kv)

    @cached_property
    def expected_lse(self) -> Expected:
        """softmax_lse, float32 (float64 inputs may keep float64: see the check)."""
        lse = self.truth[1]
        size = max(1.0, largest(lse.masked_fill(lse.isinf(), 0.0).abs()))
        unit = eps(accumulate_dtype(self.q.dtype)) if self.q.dtype != torch.float64 else eps(torch.float32)
        measured = max(largest((plain.double() - lse).nan_to_num(nan=0.0).abs()) for _, plain in self.plains)
        bound = 2 * unit * (1 + self.logits) + 6 * unit * size
        if self.q.dtype in (torch.float16, torch.bfloat16):  # scaling q, or keeping scores, in that dtype is fair
            bound += eps(self.q.dtype) * self.logits
        return Expected("softmax_lse", lse, max(2 * measured, bound), torch.float32)

    def describe(self) -> Text:
        """B=1 N1=2 N2=2 S1=32 S2=32 D=8 ... in the words of the course."""
        (b, n1, s1, d), (_, n2, s2, _), dv = self.q.shape, self.k.shape, self.v.shape[-1]
        parts = [f"B={b} N1={n1} N2={n2} S1={s1} S2={s2} D={d}"]
        if dv != d:
            parts.append(f"Dv={dv}")
        if self.q.dtype != torch.float32:
            parts.append(str(self.q.dtype).removeprefix("torch."))
        if self.scale is not None:
            parts.append(f"scale={self.scale:g}")
        if self.mask_mode:
            parts.append(f"mask_mode={self.mask_mode}")
        if self.mask_mode == 4:
            parts.append(f"win_left={self.win_left} win_right={self.win_right}")
        if self.block_q:
            parts.append(f"block_q={self.block_q} block_kv={self.block_kv}")
        line = " ".join(parts)
        return say(line, line)


def normal(rng: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32, spread: float = 1.0) -> Tensor:
    return torch.from_numpy(spread * rng.standard_normal(shape, dtype=np.float64)).to(dtype)


def draw(
    rng: np.random.Generator, shape: Shape, *, dtype: torch.dtype = torch.float32, spread: float = 1.6, **fields: Any
) -> Attention:
    """Normal q, k, v. With ``spread`` 1.6 the weights of a row differ clearly and |logit| stays below 20."""
    s = shape
    return Attention(
        q=normal(rng, s.batch, s.heads, s.seq_q, s.dim, dtype=dtype, spread=spread),
        k=normal(rng, s.batch, s.kv_heads, s.seq_kv, s.dim, dtype=dtype, spread=spread),
        v=normal(rng, s.batch, s.kv_heads, s.seq_kv, s.value_dim, dtype=dtype),
        **fields,
    )


Make = Callable[[np.random.Generator, int], Attention]


def drawing(*shapes: Shape, scales: tuple[float, ...] = (), **fields: Any) -> Make:
    """``make(rng, n)`` for a check: case n has ``shapes[n]``, or the last if there are fewer, and ``scales[n]``."""

    def make(rng: np.random.Generator, n: int) -> Attention:
        scale = scales[min(n, len(scales) - 1)] if scales else None
        return draw(rng, shapes[min(n, len(shapes) - 1)], scale=scale, **fields)

    return make


def swapped(make: Make) -> Make:
    """Case 1 first."""
    return lambda rng, n: make(rng, 1 - n)
