"""Storages made by hand or read from a file, and pinned memory: torch asks allocators that Python cannot provide."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration

from kernels.ascend.device import refusals
from kernels.ascend.device.alias import CPU
from kernels.ascend.device.memory import on_npu

_pinned: weakref.WeakSet[Any] = weakref.WeakSet()


def patch() -> None:
    """Let ``torch.UntypedStorage`` serve the device too, which saving and loading need; give storages ``.npu()``."""
    plain_make, plain_new, plain_resize = (
        torch.UntypedStorage.__new__, torch.UntypedStorage.new, torch.UntypedStorage.resize_
    )  # fmt: skip

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        where = torch.device(device) if isinstance(device, str) else device
        if not isinstance(where, torch.device) or where.type != "npu":
            return plain_make(cls, *args, **kwargs)
        refusals.check_device(where)
        content = args[0] if args else 0
        if isinstance(content, int):
            return on_npu(torch.empty(content, dtype=torch.uint8, device=CPU)).untyped_storage()
        return on_npu(torch.tensor(content, dtype=torch.uint8, device=CPU)).untyped_storage()

    def resize(storage: Any, size: int) -> Any:
        if storage.device.type == "npu":
            raise refusals.unsupported("resize_ of a storage", "Use resize_ of the tensor, or make a new tensor.")
        return plain_resize(storage, size)

    def new(storage: Any) -> Any:
        return torch.UntypedStorage(0, device="npu") if storage.device.type == "npu" else plain_new(storage)

    torch.UntypedStorage.__new__ = make  # type: ignore[method-assign]
    torch.UntypedStorage.new = new  # type: ignore[method-assign,assignment]
    torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign,assignment]
    backend_registration._generate_storage_methods_for_privateuse1_backend("npu")


def pin_memory(tensor: Tensor, device: Any = None) -> Tensor:
    """A copy that counts as pinned: there is nothing to pin, but programs for a card do it."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=CPU).copy_(tensor)
    _pinned.add(copy.untyped_storage())
    return copy


def is_pinned(tensor: Tensor, device: Any = None) -> bool:
    return tensor.untyped_storage() in _pinned


ON_CPU = {"_pin_memory": pin_memory, "is_pinned": is_pinned}  # operators of tensors of the CPU
