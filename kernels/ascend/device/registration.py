"""Every operator of torch gets its kernel for the device.

Operators that torch would take apart for a device that it does not know are registered one by one, so that they too
cost one call; what remains arrives at the fallback.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from kernels.ascend.device import refusals
from kernels.ascend.device.kernels import kernel_for
from kernels.ascend.device.storage import AS_CPU, BY_HAND

aten = torch.ops.aten
_has = torch._C._dispatch_has_kernel_for_dispatch_key

VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")  # good for any device
BY_C_PLUS_PLUS = {  # written in terms of other operators in a way that suits every device
    "copy_", "copy", "lift", "lift_fresh", "lift_fresh_copy", "_unsafe_view", "squeeze_", "unsqueeze_", "t_",
    "transpose_", "as_strided_", "swapaxes_", "swapdims_", "resize_as_", "record_stream",
}  # fmt: skip
NAMESPACES = ("aten", "prims")  # an operator of someone else that is written for the CPU only is refused, as on a card

_libraries: list[torch.library.Library] = []


def register() -> None:
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_fallback, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    ours = torch.library.Library("aten", "IMPL")
    for name, kernel in BY_HAND.items():
        ours.impl(name, kernel, "PrivateUse1")
    for name in VIEWS:
        ours.impl(name, functools.partial(getattr(aten, name).default.redispatch, AS_CPU), "PrivateUse1")
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::") and _takes_apart(full):
            op = _overload(full)
            if op is not None and _computes(op):
                ours.impl(full.removeprefix("aten::"), kernel_for(op), "PrivateUse1")
    _libraries.extend([everything, ours])


def _takes_apart(full: str) -> bool:
    name = full.removeprefix("aten::").partition(".")[0]
    return (
        name not in BY_C_PLUS_PLUS
        and not _has(full, "PrivateUse1")
        and any(_has(full, key) for key in ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"))
    )


def _overload(full: str) -> Any:
    name, _, overload = full.removeprefix("aten::").partition(".")
    return getattr(getattr(aten, name, None), overload or "default", None)


def _computes(op: Any) -> bool:
    """Whether it takes tensors and gives fresh ones or writes into those given: no view, no factory."""
    schema = op._schema
    if any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns):
        return False
    if any(argument.name == "device" for argument in schema.arguments):
        return False
    return any("Tensor" in str(argument.type) for argument in schema.arguments)


@functools.cache
def _kernel(op: Any) -> Any:
    if op.namespace not in NAMESPACES or not _has(op._schema.name + (f".{op._overloadname}" if op._schema.overload_name else ""), "CPU"):
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise refusals.unsupported(f"The operator {refusals.full_name(op)}")
        return refuse
    return kernel_for(op)


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _kernel(op)(*args, **kwargs)
