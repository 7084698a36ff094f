"""What the device refuses, and what it says then: which operator, which argument, what to do instead."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class OnCpu(Exception):
    """A tensor of the CPU met one of the device; caught where the operator is known."""


def mixed_devices(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError:
    """The error of a real card, with the argument that lies on the CPU."""
    names = [argument.name for argument in op._schema.arguments]
    values = dict(zip(names, args)) | kwargs
    name = next((name for name, value in values.items() if _on_cpu(value)), "self")
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, npu:0 and cpu! "
        f'(when checking argument {name} of operator {full_name(op)}). Move that tensor with .npu() or .to("npu").'
    )


def _on_cpu(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.is_cpu
    return isinstance(value, (list, tuple)) and any(_on_cpu(item) for item in value)


def full_name(op: Any) -> str:
    return str(op._schema.name) + (f".{op._schema.overload_name}" if op._schema.overload_name else "")


def unsupported(what: str, instead: str = "Do this part on the CPU, with .cpu().") -> NotImplementedError:
    """The error for what a card may well do and the emulated one does not."""
    return NotImplementedError(f"{what} is not supported by the emulated NPU. {instead}")


def check_device(device: Any) -> None:
    """There is one device. Raises RuntimeError for npu:1 and up; device is a torch.device, a name, an index or None."""
    where = torch.device(device) if isinstance(device, str) else device
    index = where.index if isinstance(where, torch.device) else where
    if index not in (None, -1, 0):
        raise RuntimeError(f'npu:{index} does not exist: there is one emulated NPU, npu:0. Write "npu" or "npu:0".')
