"""Calls that the operators take, and for each rule a change that breaks it, in the order in which upstream looks.

A change says which argument the refusal must begin with. Its place in the list is its precedence: of two faults at once
the one that stands earlier is told first (test_ops_arguments.py tries all pairs that fit together).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def meta(dtype: torch.dtype) -> Callable[..., Tensor]:
    return lambda *shape: torch.empty(shape, dtype=dtype, device="meta")


half, brain, single, i32, i64, i8 = map(
    meta, (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.int8)
)
MASK = i8(2048, 2048)


@dataclass(frozen=True)
class Change:
    """id, what replaces the good arguments, and the argument that the refusal begins with; "": it is still fine."""

    id: str
    arguments: dict[str, Any]
    names: str


def change(id: str, names: str, **arguments: Any) -> Change:
    return Change(id, arguments, names)


def kv(*shape: int, make: Callable[..., Tensor] = half) -> dict[str, Tensor]:
    return {"k": make(*shape), "v": make(*shape)}
