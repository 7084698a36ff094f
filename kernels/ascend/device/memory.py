"""How much memory the device holds, exact to the byte: every storage is counted when it is made and when it dies.

On a card a caching allocator sits between: it hands out blocks of 512 bytes and keeps what is freed (reserved) until
``empty_cache()``. Here blocks have the size asked for, and the cache never has a block in the wrong size.
"""

from __future__ import annotations

import weakref

from torch import Tensor

from kernels.ascend.device.alias import npu_alias
from kernels.ascend.device.refusals import check_device
from kernels.ascend.device.soc import current_soc


class _Held(weakref.ref):
    """Watches one storage. torch keeps a storage's Python object for as long as the storage lives."""

    __slots__ = ("nbytes",)
    nbytes: int


_held: set[_Held] = set()
_allocated = _peak = _reserved = _reserved_peak = 0


def on_npu(tensor: Tensor) -> Tensor:
    """A fresh tensor of the CPU, handed over to the device."""
    global _allocated, _peak, _reserved, _reserved_peak
    moved = npu_alias(tensor)
    storage = moved.untyped_storage()
    held = _Held(storage, _freed)
    held.nbytes = storage.nbytes()
    _held.add(held)
    _allocated += held.nbytes
    if _allocated > _peak:
        _peak = _allocated
    if _allocated > _reserved:
        _reserved = _allocated
        _reserved_peak = max(_reserved_peak, _reserved)
    return moved


def _freed(held: _Held) -> None:
    global _allocated
    _held.discard(held)
    _allocated -= held.nbytes


def memory_allocated(device: object = None) -> int:
    """Bytes of all storages on the device."""
    check_device(device)
    return _allocated


def max_memory_allocated(device: object = None) -> int:
    """The most bytes at any time since the start or :func:`reset_peak_memory_stats`."""
    check_device(device)
    return _peak


def memory_reserved(device: object = None) -> int:
    """Bytes allocated or kept for later, the most there were since the last :func:`empty_cache`."""
    check_device(device)
    return _reserved


def max_memory_reserved(device: object = None) -> int:
    """The most bytes reserved since the start or :func:`reset_peak_memory_stats`."""
    check_device(device)
    return _reserved_peak


def reset_peak_memory_stats(device: object = None) -> None:
    """Let the peaks begin anew from what is there now."""
    global _peak, _reserved_peak
    check_device(device)
    _peak, _reserved_peak = _allocated, _reserved


def empty_cache() -> None:
    """Give back what is reserved and not allocated."""
    global _reserved
    _reserved = _allocated


def mem_get_info(device: object = None) -> tuple[int, int]:
    """(free, total) bytes of the card that is emulated."""
    check_device(device)
    total = current_soc().memory
    return max(total - _reserved, 0), total


def memory_stats(device: object = None) -> dict[str, int]:
    """The figures above by the names that torch gives them."""
    check_device(device)
    return {
        "allocated_bytes.all.current": _allocated,
        "allocated_bytes.all.peak": _peak,
        "reserved_bytes.all.current": _reserved,
        "reserved_bytes.all.peak": _reserved_peak,
    }


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """The figures above as a text."""
    return "\n".join(f"{name:<30}{value:>20,} B" for name, value in memory_stats(device).items())
