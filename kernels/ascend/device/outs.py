"""The targets of out=: what the CPU's kernel writes into, and what becomes of the tensor that the caller gave."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.refusals import OnCpu
from kernels.ascend.device.shared import Shared
from kernels.ascend.device.tensors import resize, set_sizes

GROWS = "not resizable"  # what torch says when an alias would need more than its storage has


def target_of(out: Any, shared: Shared) -> Any:
    """The memory of out, all of its storage within reach."""
    if not isinstance(out, Tensor):
        return [target_of(item, shared) for item in out]
    if out.is_cpu:
        raise OnCpu
    return shared.alias(out) if out.untyped_storage().nbytes() else fresh(out)


def fresh(out: Any) -> Any:
    """A target that may grow."""
    if not isinstance(out, Tensor):
        return [fresh(item) for item in out]
    return torch.empty(0, dtype=out.dtype, device=CPU)


def take(out: Any, target: Any) -> None:
    """Make out what the kernel made of its target: other sizes, or values for which its storage has to grow."""
    if not isinstance(out, Tensor):
        for one, other in zip(out, target):
            take(one, other)
    elif target.data_ptr() != out.data_ptr():
        resize(out, target.shape)
        set_sizes(out, out.untyped_storage(), out.storage_offset(), target.size(), target.stride())
        cpu_alias(out).copy_(target)
    elif target.shape != out.shape or target.stride() != out.stride():
        set_sizes(out, out.untyped_storage(), out.storage_offset(), target.size(), target.stride())
