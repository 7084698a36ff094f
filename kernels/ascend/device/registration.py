"""Every operator of torch gets its kernel for the device.

Operators that torch would take apart for a device that it does not know are registered one by one, so that they too
cost one call; what remains arrives at the fallback.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from kernels.ascend.device import copies, refusals, rng, storages, tensors
from kernels.ascend.device.kernels import Kernel, kernel_for

aten = torch.ops.aten
_has = torch._C._dispatch_has_kernel_for_dispatch_key

KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")  # what can be called once
VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")  # good for any device
BY_C_PLUS_PLUS = {  # written in terms of other operators in a way that suits every device, or changing sizes only
    "copy_", "copy", "lift", "lift_fresh", "lift_fresh_copy", "_unsafe_view", "squeeze_", "unsqueeze_", "t_",
    "transpose_", "as_strided_", "swapaxes_", "swapdims_", "resize_as_",
}  # fmt: skip
NAMESPACES = ("aten", "prims")  # an operator of someone else that is written for the CPU only is refused, as on a card
NOT_DENSE = {
    "SparsePrivateUse1": "A sparse tensor", "SparseCsrPrivateUse1": "A sparse tensor",
    "QuantizedPrivateUse1": "A quantized tensor", "NestedTensorPrivateUse1": "A nested tensor of strided layout",
}  # fmt: skip
ABSENT = {  # where the CPU has none, or keeps a part of it for itself
    "_thnn_fused_lstm_cell": "nn.LSTM", "_thnn_fused_gru_cell": "nn.GRU", "_pack_padded_sequence": "A packed sequence",
}  # fmt: skip

_libraries: list[torch.library.Library] = []


def register() -> None:
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_fallback, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for key, what in NOT_DENSE.items():
        everything.fallback(_refusing(what), key)
    ours = torch.library.Library("aten", "IMPL")
    by_hand = {**tensors.BY_HAND, **copies.BY_HAND, "native_dropout": rng.native_dropout, "record_stream": _nothing}
    by_hand |= {name: _refusing(what) for name, what in ABSENT.items()}
    for name, kernel in by_hand.items():
        ours.impl(name, kernel, "PrivateUse1")
    for name, kernel in storages.ON_CPU.items():
        ours.impl(name, kernel, "CPU")
    for name in VIEWS:
        redispatch = getattr(aten, name).default.redispatch
        ours.impl(name, functools.partial(redispatch, tensors.AS_CPU), "PrivateUse1")
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::") and not _has(full, "PrivateUse1") and any(_has(full, key) for key in KEYS):
            op = _overload(full)
            if op is not None and _computes(op):
                ours.impl(full.removeprefix("aten::"), kernel_for(op), "PrivateUse1")
    _libraries.extend([everything, ours])


def _overload(full: str) -> Any:
    name, _, overload = full.removeprefix("aten::").partition(".")
    return None if name in BY_C_PLUS_PLUS else getattr(getattr(aten, name, None), overload or "default", None)


def _computes(op: Any) -> bool:
    """Whether it takes tensors and gives fresh ones or writes into those given: no view, no factory."""
    schema = op._schema
    if any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns):
        return False
    if any(argument.name == "device" for argument in schema.arguments):
        return False
    return any("Tensor" in str(argument.type) for argument in schema.arguments)


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _kernel(op)(*args, **kwargs)


@functools.cache
def _kernel(op: Any) -> Kernel:
    if op.namespace in NAMESPACES and _has(refusals.full_name(op), "CPU"):
        return kernel_for(op)
    return _refusing(f"The operator {refusals.full_name(op)}")


def _refusing(what: str) -> Kernel:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise refusals.unsupported(what)

    return refuse


def _nothing(*args: Any) -> None:
    """For what a card does about several streams."""
