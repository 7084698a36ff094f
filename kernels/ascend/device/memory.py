"""How much memory the device holds, exact to the byte: every storage is counted when it is made and when it dies."""

from __future__ import annotations

import weakref

from torch import Tensor

from kernels.ascend.device.alias import npu_alias
from kernels.ascend.device.soc import current_soc


class _Held(weakref.ref):
    """Watches one storage. torch keeps a storage's Python object for as long as the storage lives."""

    __slots__ = ("nbytes",)
    nbytes: int


_held: set[_Held] = set()
_allocated = 0
_peak = 0


def on_npu(tensor: Tensor) -> Tensor:
    """A fresh tensor of the CPU, handed over to the device."""
    global _allocated, _peak
    moved = npu_alias(tensor)
    storage = moved.untyped_storage()
    held = _Held(storage, _freed)
    held.nbytes = storage.nbytes()
    _held.add(held)
    _allocated += held.nbytes
    if _allocated > _peak:
        _peak = _allocated
    return moved


def _freed(held: _Held) -> None:
    global _allocated
    _held.discard(held)
    _allocated -= held.nbytes


def memory_allocated(device: object = None) -> int:
    """Bytes of all storages on the device."""
    return _allocated


def max_memory_allocated(device: object = None) -> int:
    """The most bytes at any time since the start or :func:`reset_peak_memory_stats`."""
    return _peak


def reset_peak_memory_stats(device: object = None) -> None:
    global _peak
    _peak = _allocated


def mem_get_info(device: object = None) -> tuple[int, int]:
    """(free, total) bytes of the card that is emulated."""
    total = current_soc().memory
    return max(total - _allocated, 0), total


def memory_reserved(device: object = None) -> int:
    """Nothing is kept back, hence what is allocated."""
    return _allocated


def max_memory_reserved(device: object = None) -> int:
    return _peak
