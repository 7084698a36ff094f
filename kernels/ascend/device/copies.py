"""Copies between the device and the CPU, and numbers that leave it: here a program waits for the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import queue, refusals
from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.shared import Shared, on_one_storage
from kernels.ascend.device.tensors import AS_CPU

aten = torch.ops.aten


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """copy_ when at least one side is of the device."""
    if target.is_cpu:
        queue.wait()
        target.copy_(cpu_alias(source))
    elif source.is_cpu:
        cpu_alias(target).copy_(source)
    else:
        alias = Shared().alias if on_one_storage(source, target) else cpu_alias
        alias(target).copy_(alias(source))
    return target


def copy_from_and_resize(source: Tensor, target: Tensor) -> Tensor:
    target.resize_(source.shape)
    return target.copy_(source)


def to_copy(tensor: Tensor, *, device: Any = None, **kwargs: Any) -> Tensor:
    """What ``.to()`` does for a tensor of the device. torch's own would pin memory when it need not block."""
    kwargs.pop("non_blocking", None)
    if device is None or device.type == "npu":
        refusals.check_device(device)
        return on_npu(aten._to_copy(cpu_alias(tensor), **kwargs))
    if device.type == "cpu":
        queue.wait()
        return aten._to_copy(cpu_alias(tensor), device=CPU, **kwargs)
    return aten._to_copy.default.redispatch(AS_CPU, tensor, device=device, **kwargs)


def item(tensor: Tensor) -> Any:
    queue.wait()
    return cpu_alias(tensor).item()


BY_HAND = {
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_to_copy": to_copy,
    "_local_scalar_dense": item,
}
