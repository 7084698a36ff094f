"""torch.ops.cann_ops_transformer.*: schemas, the kernels of the device, shapes for tracing, autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from kernels.ascend.ops import backward, fingerprint, forward, layouts
from kernels.ascend.ops.arguments import check_flash_attn_arguments, check_flash_attn_grad_arguments, values
from kernels.ascend.ops.arguments import metadata as metadata_arguments
from kernels.ascend.ops.arguments.faults import Fault, refuse
from kernels.ascend.ops.autograd import FlashAttnFunction, Kernels
from kernels.ascend.ops.calls import (
    LENGTHS,
    CompleteMetadataCall,
    FlashAttnCall,
    FlashAttnGradCall,
    FlashAttnMetadataCall,
)
from kernels.ascend.ops.platform import to_cpu, to_npu

NAMESPACE = "cann_ops_transformer"
_OPTIONAL = "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_kv=None, Tensor? seqused_q=None, Tensor? seqused_kv=None"
_MASK = "int mask_mode=0, int win_left=-1, int win_right=-1, int max_seqlen_q=-1, int max_seqlen_kv=-1"
_LAYOUTS = 'str layout_q="BSND", str layout_kv="BSND", str layout_out="BSND"'
SCHEMAS = (
    f"flash_attn(Tensor q, Tensor k, Tensor v, Tensor? block_table=None, {_OPTIONAL}, Tensor? sinks=None, "
    f"Tensor? attn_mask=None, Tensor? metadata=None, float softmax_scale=1.0, {_MASK}, {_LAYOUTS}, "
    "bool return_softmax_lse=False) -> (Tensor, Tensor)",
    "flash_attn_grad(Tensor q, Tensor k, Tensor v, Tensor dout, Tensor attn_out, Tensor softmax_lse, "
    f"{_OPTIONAL}, Tensor? sinks=None, Tensor? attn_mask=None, Tensor? metadata=None, float softmax_scale=0.0, "
    f"{_MASK}, {_LAYOUTS}) -> (Tensor, Tensor, Tensor)",
    "flash_attn_metadata(int num_heads_q, int num_heads_kv, int head_dim, *, int? head_dim_v=None, "
    f"{_OPTIONAL}, int? batch_size=None, int? max_seqlen_q=None, int? max_seqlen_kv=None, int? mask_mode=None, "
    "int? win_left=None, int? win_right=None, str? layout_q=None, str? layout_kv=None, str? layout_out=None, "
    "bool is_grad_enabled=False) -> Tensor",
)

Call = TypeVar("Call", FlashAttnCall, FlashAttnGradCall, CompleteMetadataCall)
_library: list[torch.library.Library] = []  # registrations live as long as this object does


def register() -> None:
    """Define the three operators. Doing it twice is fine."""
    if _library:
        return
    library = torch.library.Library(NAMESPACE, "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    for name, on_device, shapes in (
        ("flash_attn", _flash_attn, _flash_attn_shapes),
        ("flash_attn_grad", _flash_attn_grad, _flash_attn_grad_shapes),
    ):
        library.impl(name, on_device, "PrivateUse1")
        library.impl(name, _refuse_cpu(name), "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{name}", shapes, lib=library)
    library.impl("flash_attn", _flash_attn_autograd, "Autograd")
    library.impl("flash_attn_metadata", _flash_attn_metadata, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::flash_attn_metadata", _flash_attn_metadata_shapes, lib=library)
    _library.append(library)


def _flash_attn(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    check_flash_attn_arguments(*args, **kwargs)
    call = _on_cpu(FlashAttnCall(*args, **kwargs))
    refuse("flash_attn", _content_faults(call))
    attn_out, softmax_lse = forward.compute(call)
    return to_npu(attn_out), to_npu(softmax_lse)


def _flash_attn_shapes(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    check_flash_attn_arguments(*args, **kwargs)
    call = FlashAttnCall(*args, **kwargs)
    lse = layouts.lse_shape(call.layout_q, call.q.shape) if call.return_softmax_lse else (1,)
    return call.q.new_empty(call.out_shape), call.q.new_empty(lse, dtype=torch.float32)


def _flash_attn_autograd(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return FlashAttnFunction.apply(ON_DEVICE, *FlashAttnCall(*args, **kwargs).operands())


def _flash_attn_grad(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    check_flash_attn_grad_arguments(*args, **kwargs)
    call = _on_cpu(FlashAttnGradCall(*args, **kwargs))
    refuse("flash_attn_grad", _content_faults(call))
    dq, dk, dv = backward.compute(call)
    return to_npu(dq), to_npu(dk), to_npu(dv)


def _flash_attn_grad_shapes(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    check_flash_attn_grad_arguments(*args, **kwargs)
    call = FlashAttnGradCall(*args, **kwargs)
    return tuple(x.new_empty(x.shape) for x in (call.q, call.k, call.v))


def _flash_attn_metadata(*args: Any, **kwargs: Any) -> Tensor:
    call = _checked_metadata_call(*args, **kwargs)
    elsewhere = {
        name: x.device for name in LENGTHS if (x := getattr(call, name)) is not None and x.device.type != "npu"
    }
    text = "{0} is on {1}: the operator reads it on the NPU; move it with .npu() or .to('npu')"
    refuse("flash_attn_metadata", (Fault(name, text.format(name, device)) for name, device in elsewhere.items()))
    call = _on_cpu(call)
    refuse("flash_attn_metadata", values.value_faults(call))
    return to_npu(fingerprint.build(call))


def _flash_attn_metadata_shapes(*args: Any, **kwargs: Any) -> Tensor:
    call = _checked_metadata_call(*args, **kwargs)
    given = [x for name in LENGTHS if (x := getattr(call, name)) is not None]
    return torch.empty(fingerprint.length_of(call), dtype=torch.int32, device=given[0].device if given else "npu")


def _content_faults(call: FlashAttnCall | FlashAttnGradCall) -> Iterator[Fault]:
    """What only the contents of tensors show, and what hardware would take silently."""
    yield from fingerprint.fingerprint_faults(call)
    yield from values.faults_beyond(call)
    yield from values.mask_faults(call)


def _checked_metadata_call(*args: Any, **kwargs: Any) -> CompleteMetadataCall:
    call = metadata_arguments.complete(FlashAttnMetadataCall(*args, **kwargs))
    refuse("flash_attn_metadata", metadata_arguments.flash_attn_metadata_faults(call))
    return call


def _on_cpu(call: Call) -> Call:
    """The same call with its tensors on the CPU, to be read only."""
    given = {f.name: getattr(call, f.name) for f in fields(call)}
    on_cpu: Any = {name: to_cpu(x) for name, x in given.items() if isinstance(x, Tensor) and x.device.type == "npu"}
    return replace(call, **on_cpu)


def _refuse_cpu(name: str) -> Callable[..., None]:
    def refused(*args: Any, **kwargs: Any) -> None:
        text = "q, k and v are on the CPU, and the operator runs on the NPU only: move them with .npu() or .to('npu')"
        refuse(name, [Fault("q", text)])

    return refused


def _forward_operator(call: FlashAttnCall) -> tuple[Tensor, Tensor]:
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.cann_ops_transformer.flash_attn(*call.operands())


def _grad_operator(call: FlashAttnGradCall) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.cann_ops_transformer.flash_attn_grad(*call.operands())


ON_DEVICE = Kernels(_forward_operator, _grad_operator)
