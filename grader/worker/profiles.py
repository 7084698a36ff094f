"""What single exercises ask of the workers that run them: ``softmax``, ``autograd`` or ``numpy`` disabled, or another
NPU: ``soc:Ascend910B3``."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch

from . import place
from .bans import disable_operators, disable_python, leak, refusal
from .names import REFUSALS, SOC, SOFTMAX, TO_ARRAY

LONGEST_ROW, LARGEST_TABLE = 1000, 64  # floating-point numbers that tolist() may give; print() asks row by row


def apply(bans: Iterable[str]) -> None:
    """Do what these bans say, in the template that the workers of a profile are forked from."""
    for ban in bans:
        if ban.startswith(SOC):
            place.current.use_soc(ban.removeprefix(SOC))
            continue
        {"softmax": ban_softmax, "autograd": ban_autograd, "numpy": ban_numpy}[ban]()
    gc.collect()
    gc.freeze()


def ban_softmax() -> None:
    """Every operator that is a softmax or a log-sum-exp, or contains one."""
    for disable in (disable_operators, disable_python):
        disable(SOFTMAX, REFUSALS["softmax"])


def ban_autograd() -> None:
    """No operator records a graph any more; an ``autograd.Function`` with its own backward still works."""
    libraries = {
        namespace: torch._C._dispatch_library("IMPL", namespace, "Autograd", __file__, 0)
        for namespace in ("aten", *place.OPERATORS)
    }
    for library in libraries.values():
        leak(library)
    for full in torch._C._dispatch_get_all_op_names():
        namespace, name = full.split("::", 1)
        if namespace in libraries and torch._C._dispatch_has_kernel_for_dispatch_key(full, "Autograd"):
            libraries[namespace].impl(name, "Autograd", torch.library.fallthrough_kernel)


def ban_numpy() -> None:
    """No way from a tensor into an array, nor an array that shares memory with a tensor."""
    refuse = refusal(REFUSALS["numpy"])
    lists = torch._C.TensorBase.tolist

    def tolist(self: torch.Tensor) -> Any:
        if self.is_floating_point() and self.numel() > (LONGEST_ROW if self.dim() < 2 else LARGEST_TABLE):
            raise RuntimeError(REFUSALS["numpy"])
        return lists(self)

    replace_in_type(torch._C.TensorBase, tolist=tolist, **dict.fromkeys(TO_ARRAY, refuse))
    replace_in_type(torch.UntypedStorage, tolist=refuse, __iter__=refuse)
    replace_in_type(torch.TypedStorage, tolist=refuse, __iter__=refuse)
    replace_in_type(torch.Tensor, __dlpack_c_exchange_api__=None, **dict.fromkeys(TO_ARRAY, refuse))
    for module, names in (
        (torch._C, ("_to_dlpack", "_to_dlpack_versioned", "_from_dlpack")),
        (torch, ("from_numpy", "frombuffer", "from_dlpack", "to_dlpack")),
        (torch.utils.dlpack, ("to_dlpack", "from_dlpack")),
    ):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, refuse)
    for name in ("as_tensor", "asarray"):
        setattr(torch, name, copying(getattr(torch, name)))


def copying(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``as_tensor`` and the like, which would share the memory of an array."""

    def convert(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        return function(data.copy() if isinstance(data, numpy.ndarray) else data, *args, **kwargs)

    return convert


def replace_in_type(kind: type, **attributes: Any) -> None:
    """``setattr`` that also works on types written in C."""
    members = gc.get_referents(kind.__dict__)[0]
    for name, value in attributes.items():
        members[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
