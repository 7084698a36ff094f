"""What is written by hand for the device: making tensors, pointing them at storages, copies between devices."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import queue, refusals
from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu

aten = torch.ops.aten
AS_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

set_sizes = functools.partial(aten.set_.source_Storage_storage_offset.redispatch, AS_CPU)


def adopt(tensor: Tensor, other: Tensor) -> Tensor:
    """Point a tensor at the storage of another one."""
    return set_sizes(tensor, other.untyped_storage(), other.storage_offset(), other.size(), other.stride())


def follow(tensor: Tensor, alias: Tensor) -> None:
    """Give a tensor the sizes that its alias took. The tensor keeps its own storage: the alias only borrows it."""
    offset = tensor.storage_offset() + (alias.data_ptr() - tensor.data_ptr()) // alias.element_size()
    set_sizes(tensor, tensor.untyped_storage(), offset, alias.size(), alias.stride())


def empty(
    size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    _check(layout, device, pin_memory)
    made = torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format, device=CPU)
    return on_npu(made)


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    _check(layout, device, pin_memory)
    return on_npu(torch.empty_strided(size, stride, dtype=dtype, device=CPU))


def _check(layout: Any, device: Any, pin_memory: Any) -> None:
    refusals.check_index(device)
    if layout not in (None, torch.strided):
        raise refusals.unsupported(f"A tensor of layout {layout}")
    if pin_memory:
        raise RuntimeError("Only tensors of the CPU can be pinned")


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """copy_ when at least one side is of the device."""
    if target.is_cpu:
        queue.wait()
        target.copy_(cpu_alias(source))
    else:
        cpu_alias(target).copy_(source if source.is_cpu else cpu_alias(source))
    return target


def copy_from_and_resize(source: Tensor, target: Tensor) -> Tensor:
    target.resize_(source.shape)
    return target.copy_(source)


def item(tensor: Tensor) -> Any:
    queue.wait()
    return cpu_alias(tensor).item()


def resize(tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    new = torch.empty(size, dtype=tensor.dtype, device=CPU)
    kept = min(new.numel(), tensor.numel())
    if kept:
        new.view(-1)[:kept].copy_(cpu_alias(tensor).reshape(-1)[:kept])
    return adopt(tensor, on_npu(new))


def set_storage(tensor: Tensor, storage: Any) -> Tensor:
    return set_sizes(tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])


def set_nothing(tensor: Tensor) -> Tensor:
    return adopt(tensor, on_npu(torch.empty(0, dtype=tensor.dtype, device=CPU)))


def same_kind(tensor: Tensor, other: Tensor) -> bool:
    """Whether ``tensor.data = other`` may be done in place: then a module's parameters stay the same objects."""
    return tensor.layout is torch.strided and other.layout is torch.strided


BY_HAND = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": item,
    "resize_": resize,
    "set_.source_Storage_storage_offset": set_sizes,
    "set_.source_Storage": set_storage,
    "set_.source_Tensor": adopt,
    "set_": set_nothing,
    "_has_compatible_shallow_copy_type": same_kind,
}


def register_storages() -> None:
    """Storages made by hand or read from a file: torch would ask an allocator that Python cannot provide."""
    plain = torch.UntypedStorage.__new__

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        where = torch.device(device) if isinstance(device, str) else device
        if where is None or where.type != "npu":
            return plain(cls, *args, **kwargs) if device is None else plain(cls, *args, device=device, **kwargs)
        refusals.check_index(where)
        size = args[0] if args else 0
        values = torch.empty(size, dtype=torch.uint8, device=CPU) if isinstance(size, int) else torch.tensor(size)
        return on_npu(values).untyped_storage()

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign,assignment]
