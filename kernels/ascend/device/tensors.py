"""What is written by hand for the device: making tensors, pointing them at storages, sizes in place."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import refusals
from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu

aten = torch.ops.aten
AS_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
ALONE = 2  # uses of a storage that one tensor has to itself: that tensor and the storage's Python object

set_sizes = functools.partial(aten.set_.source_Storage_storage_offset.redispatch, AS_CPU)


def adopt(tensor: Tensor, other: Tensor) -> Tensor:
    """Point a tensor at the storage of another one."""
    return set_sizes(tensor, other.untyped_storage(), other.storage_offset(), other.size(), other.stride())


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


def zeros(size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """Elsewhere a tensor without memory stands for zeros in a derivative; here they are zeros."""
    _check(layout, device, pin_memory)
    return on_npu(torch.zeros(size, dtype=dtype, device=CPU))


def _check(layout: Any, device: Any, pin_memory: Any) -> None:
    refusals.check_device(device)
    if layout not in (None, torch.strided):
        raise refusals.unsupported(f"A tensor of layout {layout}")
    if pin_memory:
        raise RuntimeError("Only tensors of the CPU can be pinned: leave out pin_memory=True, or make it on the CPU.")


def resize(tensor: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    """resize_: the storage grows if it must. Raises RuntimeError if it must and other tensors share it."""
    if tensor.shape == torch.Size(size) and memory_format is None:
        return tensor
    like = torch.empty(size, dtype=tensor.dtype, memory_format=memory_format or torch.contiguous_format, device="meta")
    storage = tensor.untyped_storage()
    needed = int(tensor.storage_offset() * tensor.element_size() + like.untyped_storage().nbytes())
    if like.numel() and needed > storage.nbytes():
        if torch._C._storage_Use_Count(storage._cdata) > ALONE:
            raise refusals.unsupported(
                "resize_ of a tensor whose memory would have to grow while other tensors share it", "Make a new tensor."
            )
        storage = _grown(storage, needed)
    return set_sizes(tensor, storage, tensor.storage_offset(), like.size(), like.stride())


def _grown(storage: Any, nbytes: int) -> Any:
    """A storage of so many bytes that begins with what the given one holds."""
    new, old = (torch.empty(0, dtype=torch.uint8, device="npu") for _ in range(2))
    adopt(new, on_npu(torch.empty(nbytes, dtype=torch.uint8, device=CPU)))
    set_storage(old, storage)
    cpu_alias(new)[: storage.nbytes()].copy_(cpu_alias(old))
    return new.untyped_storage()


def set_storage(tensor: Tensor, storage: Any) -> Tensor:
    return set_sizes(tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])


def set_nothing(tensor: Tensor) -> Tensor:
    return adopt(tensor, on_npu(torch.empty(0, dtype=tensor.dtype, device=CPU)))


def same_kind(tensor: Tensor, other: Tensor) -> bool:
    """Whether ``tensor.data = other`` may be done in place: then a module's parameters stay the same objects when it
    moves, and an optimizer that holds them, and weights that are tied."""
    return tensor.layout is torch.strided and other.layout is torch.strided


BY_HAND = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zeros,
    "resize_": resize,
    "set_.source_Storage_storage_offset": set_sizes,
    "set_.source_Storage": set_storage,
    "set_.source_Tensor": adopt,
    "set_": set_nothing,
    "_has_compatible_shallow_copy_type": same_kind,
}
