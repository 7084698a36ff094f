"""Tensors of the emulated device: real PrivateUse1 tensors over memory of the CPU, nothing copied.

A DLPack capsule names the device that its memory belongs to. torch takes a capsule of an "extension" device for its
PrivateUse1 backend, so a capsule whose device is rewritten gives the same memory under the other device: own storage,
own strides, views. The capsule keeps the tensor that it was made from alive, hence one rule: never point a tensor at an
alias of itself (``set_``), it would keep itself alive.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import refusals

CPU = torch.device("cpu")

DLPACK_CPU, DLPACK_EXTENSION = 1, 12  # DLDeviceType
DEVICE_TYPE_OFFSET = 8  # in DLManagedTensor: behind the data pointer

_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_int32 = ctypes.c_int32.from_address
_export, _import = torch._C._to_dlpack, torch._C._from_dlpack


def _under(tensor: Tensor, device: int) -> Tensor:
    try:
        capsule = _export(tensor)
    except (RuntimeError, BufferError) as error:
        what = f"dtype {tensor.dtype}" if tensor.layout is torch.strided else f"layout {tensor.layout}"
        raise refusals.unsupported(f"A tensor of {what}") from error
    _int32(_pointer(capsule, b"dltensor") + DEVICE_TYPE_OFFSET).value = device
    alias = _import(capsule)
    # A capsule knows neither of the two lazy bits; what is aliased is the memory below them.
    if tensor.is_conj():
        alias = torch._conj(alias)
    if tensor.is_neg():
        alias = torch._neg_view(alias)
    return alias


def cpu_alias(tensor: Tensor) -> Tensor:
    """The memory of a tensor of the device, as a tensor of the CPU."""
    return _under(tensor, DLPACK_CPU)


def npu_alias(tensor: Tensor) -> Tensor:
    """The memory of a tensor of the CPU, as a tensor of the device. Not counted: see :func:`memory.on_npu`."""
    return _under(tensor, DLPACK_EXTENSION)
