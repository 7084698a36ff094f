"""The inputs on which the operator's callers are examined, in the layouts of the operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking import gradients as back
from grader.checking.cases import Attention, Shape, normal
from grader.checking.compare import Expected
from grader.text import Text, say

SEEDS_SHAPE = Shape(2, 8, 2, seq_q=128, dim=128)  # of the joint example that the course grew from
SMALL = Shape(1, 4, 2, seq_q=40, dim=64)


@dataclass(frozen=True)
class NpuCase(Attention):
    """One call on the NPU. q, k, v and dout are BNSD as everywhere in the checks; ``layout`` is what is passed."""

    layout: str = "BSND"
    strided: bool = False  # pass views that are not contiguous

    def options(self) -> dict[str, Any]:
        """Keyword arguments; masks and layout only where they are not the defaults."""
        options: dict[str, Any] = {"scale": self.factor}
        if self.mask_mode:
            options["mask_mode"] = self.mask_mode
        if self.mask_mode == 4:
            options.update(win_left=self.win_left, win_right=self.win_right)
        if self.layout != "BSND":
            options["layout"] = self.layout
        return options

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.laid_out(x) for x in (self.q, self.k, self.v))
        return q, k, v

    def laid_out(self, x: Tensor) -> Tensor:
        """[B, N, S, D] in the case's layout."""
        x = to_layout(x, self.layout)
        return x.transpose(1, 2).contiguous().transpose(1, 2) if self.strided else x.contiguous()

    def describe(self) -> Text:
        line = f"{super().describe().en} layout={self.layout}" + (" (strided)" if self.strided else "")
        return say(line, line)


def to_layout(x: Tensor, layout: str) -> Tensor:
    """[B, N, S, D] as a view in ``layout``; the same call leads back."""
    return x.transpose(1, 2) if layout == "BSND" else x


def expect_out(case: NpuCase) -> dict[str, Expected]:
    want = case.expected
    return {"attn_out": Expected("attn_out", to_layout(want.value, case.layout), want.tol, want.dtype)}


def expect_lse(case: NpuCase) -> dict[str, Expected]:
    return {"softmax_lse": case.expected_lse}


def expect_gradients(case: NpuCase) -> dict[str, Expected]:
    """dq, dk, dv in the case's layout."""
    return {
        name: Expected(name, to_layout(want.value, case.layout), want.tol, want.dtype)
        for name, want in back.expected(case).items()
    }


def npu_draw(rng: np.random.Generator, shape: Shape, dtype: torch.dtype = torch.float16, **fields: Any) -> NpuCase:
    """Normal q, k, v in a half precision, no tiles: the operator chooses its own."""
    s = shape
    q = normal(rng, s.batch, s.heads, s.seq_q, s.dim, dtype=dtype, spread=1.6)
    k = normal(rng, s.batch, s.kv_heads, s.seq_kv, s.dim, dtype=dtype, spread=1.6)
    v = normal(rng, s.batch, s.kv_heads, s.seq_kv, s.dim, dtype=dtype)
    return NpuCase(q, k, v, block_q=0, block_kv=0, **fields)


def npu_drawing(*shapes: Shape, **fields: Any) -> Callable[[np.random.Generator, int], NpuCase]:
    """``make(rng, n)``: case n has ``shapes[n]``, or the last if there are fewer. A tuple holds a value per case."""

    def make(rng: np.random.Generator, n: int) -> NpuCase:
        mine = {name: value[n] if isinstance(value, tuple) else value for name, value in fields.items()}
        return npu_draw(rng, shapes[min(n, len(shapes) - 1)], **mine)

    return make


seeds = npu_drawing(SEEDS_SHAPE, SMALL)
other_scale = npu_drawing(SMALL, Shape(2, 2, seq_q=24, dim=64), scale=(0.31, 0.05))
other_layout = npu_drawing(SMALL, Shape(2, 6, 3, seq_q=20, seq_kv=28, dim=64), layout="BNSD")
causal = npu_drawing(Shape(1, 4, 2, seq_q=48, dim=64), Shape(2, 2, seq_q=33, dim=64), mask_mode=3)
causal_offset = npu_drawing(
    Shape(1, 4, 2, seq_q=24, seq_kv=45, dim=64), Shape(2, 2, seq_q=17, seq_kv=40, dim=64), mask_mode=3
)
empty_rows = npu_drawing(
    Shape(1, 2, seq_q=45, seq_kv=24, dim=64), Shape(2, 2, seq_q=30, seq_kv=13, dim=64), mask_mode=3
)
window = npu_drawing(
    Shape(1, 2, seq_q=40, dim=64), Shape(1, 4, 2, seq_q=33, dim=64), mask_mode=4, win_left=(11, 5), win_right=(3, 9)
)
half_open = npu_drawing(
    Shape(1, 2, seq_q=40, dim=64), Shape(1, 2, seq_q=33, dim=64), mask_mode=4, win_left=(-1, 7), win_right=(6, -1)
)
window_offset = npu_drawing(
    Shape(1, 2, seq_q=24, seq_kv=45, dim=64), Shape(1, 2, seq_q=17, seq_kv=40, dim=64),
    mask_mode=4, win_left=(9, 5), win_right=(2, 4),
)  # fmt: skip
brain_float = npu_drawing(SMALL, Shape(2, 2, seq_q=24, dim=64), dtype=torch.bfloat16)
strided = npu_drawing(SMALL, Shape(2, 2, seq_q=24, dim=64), strided=True)


def ungrouped(case: NpuCase) -> NpuCase:
    """The same values with one key/value head per query head."""
    k, v = (x.repeat_interleave(case.group, dim=1) for x in (case.k, case.v))
    return case.but(k=k, v=v)
