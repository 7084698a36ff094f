"""The targets of out=: what the CPU's kernel writes into, and what becomes of the tensor that the caller gave."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.refusals import OnCpu
from kernels.ascend.device.tensors import adopt, set_sizes

GROWS = "not resizable"  # what torch says when an alias would have to grow


def target_of(out: Any, may_grow: bool = False) -> Any:
    """The memory of out; for an empty out, or one that has to grow, a fresh tensor that may."""
    if not isinstance(out, Tensor):
        return [target_of(item, may_grow) for item in out]
    if out.is_cpu:
        raise OnCpu
    if not out.numel():
        return torch.empty(out.shape, dtype=out.dtype, device=CPU)
    return torch.empty(0, dtype=out.dtype, device=CPU) if may_grow else cpu_alias(out)


def take(out: Any, target: Any) -> None:
    """Make out what the kernel made of its target: other sizes, or other memory."""
    if not isinstance(out, Tensor):
        for one, other in zip(out, target):
            take(one, other)
    elif target.data_ptr() != out.data_ptr():
        adopt(out, on_npu(target))
    elif target.shape != out.shape or target.stride() != out.stride():
        # The tensor keeps its own storage: the alias only borrows it.
        set_sizes(out, out.untyped_storage(), out.storage_offset(), target.size(), target.stride())
