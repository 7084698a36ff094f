"""Aliases on the CPU that share a storage as their tensors do. Where one is written and others are read, torch looks at
their storages: it refuses overlaps, and a tensor may take more of its storage (``out=``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.refusals import OnCpu
from kernels.ascend.device.tensors import set_storage

on_one_storage: Any = torch._C._is_alias_of  # type: ignore[attr-defined]


class Shared:
    """Makes the aliases of one call; the same tensor gets the same alias."""

    def __init__(self) -> None:
        self._storages: dict[int, Any] = {}  # address on the device -> the storage as one of the CPU
        self._aliases: dict[int, Tensor] = {}

    def alias(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._aliases:
            self._aliases[id(tensor)] = self._new(tensor)
        return self._aliases[id(tensor)]

    def _new(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            whole = set_storage(torch.empty(0, dtype=torch.uint8, device="npu"), storage)
            self._storages[storage.data_ptr()] = cpu_alias(whole).untyped_storage()
        alias = torch.empty(0, dtype=tensor.dtype, device=CPU)
        alias.set_(self._storages[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride())
        if tensor.is_conj():
            alias = torch._conj(alias)
        return torch._neg_view(alias) if tensor.is_neg() else alias

    def to_cpu(self, value: Any) -> Any:
        """The aliases of all tensors in value."""
        if isinstance(value, Tensor):
            if not value.is_cpu:
                return self.alias(value)
            if value.dim():
                raise OnCpu
            return value
        return [self.to_cpu(item) for item in value] if type(value) in (list, tuple) else value


def overlap(target: Tensor, values: Any) -> bool:
    """Whether a tensor among the values lies on target's storage."""
    for value in values:
        if isinstance(value, Tensor):
            if on_one_storage(value, target):
                return True
        elif type(value) in (list, tuple) and overlap(target, value):
            return True
    return False
