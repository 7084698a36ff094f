"""What flash_attn_metadata refuses, in its order: the Python wrapper, base attributes, mask, existence, consistency.

Sources: flash_attn_metadata, torch_extension and op_host/flash_attn_metadata_check.h. values.py has what its AICPU
kernel looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments.faults import Fault, one_device, refuse, seen
from kernels.ascend.ops.arguments.forward_alone import mask_mode_faults
from kernels.ascend.ops.arguments.forward_together import BATCH_LIMIT, HEAD_DIMS, HEAD_DIMS_TEXT
from kernels.ascend.ops.calls import LAYOUT_ARGUMENTS, LENGTHS, CompleteMetadataCall, FlashAttnMetadataCall
from kernels.ascend.ops.mask_mode import MaskMode


def complete(given: FlashAttnMetadataCall) -> CompleteMetadataCall:
    """The wrapper's work: what None stands for, and how many sequences there are.

    Raises ValueError when nothing says how many, as upstream's wrapper does, and RuntimeError for a mask_mode of None,
    which upstream turns into 1, a mask that does not exist.
    """
    batch = given.batch_size
    if given.seqused_q is not None:
        batch = given.seqused_q.numel()
    elif given.cu_seqlens_q is not None:
        batch = given.cu_seqlens_q.numel() - 1
    if batch is None or batch < 0:
        raise ValueError(
            f"flash_attn_metadata: batch_size is {given.batch_size}: it must be given and not negative when neither "
            "seqused_q nor cu_seqlens_q is there to count sequences"
        )
    if given.mask_mode is None:
        text = "mask_mode is None: say 0 (no mask), 3 (causal) or 4 (sliding window); it has no default that works"
        refuse("flash_attn_metadata", [Fault("mask_mode", text)])
    values: dict[str, Any] = {**vars(given), "sequences": batch}
    for name in ("batch_size", "max_seqlen_q", "max_seqlen_kv", "win_left", "win_right"):
        values[name] = -1 if values[name] is None else values[name]
    for name in LAYOUT_ARGUMENTS:
        values[name] = values[name] or "BSND"
    if given.head_dim_v in (None, -1):
        values["head_dim_v"] = given.head_dim
    return CompleteMetadataCall(**values)


def flash_attn_metadata_faults(call: CompleteMetadataCall) -> Iterator[Fault]:
    """Every fault of the call but those of the values in its tensors."""
    yield from one_device({name: getattr(call, name) for name in LENGTHS})
    yield from platform.platform_faults()
    yield from _base(call)
    yield from _mask(call)
    yield from _existence(call)
    yield from _consistency(call)


def _base(call: CompleteMetadataCall) -> Iterator[Fault]:
    if call.batch_size != -1 and not 0 < call.batch_size < BATCH_LIMIT:
        yield Fault(
            "batch_size",
            f"batch_size is {call.batch_size}: it must be more than 0 and less than {BATCH_LIMIT}, or -1 (not given)",
        )
    for name in ("max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be 0 or more, or -1 (not given)")
    for name in ("num_heads_q", "num_heads_kv"):
        value = getattr(call, name)
        if value <= 0:
            yield Fault(name, f"{name} is {value}: it must be more than 0")
    if (call.head_dim, call.head_dim_v) not in HEAD_DIMS:
        yield Fault(
            "head_dim",
            f"head_dim is {call.head_dim} and head_dim_v is {call.head_dim_v}: supported pairs are {HEAD_DIMS_TEXT}",
        )
    for name in ("layout_q", "layout_out", "layout_kv"):
        known = (*layouts.PLAIN, *layouts.PAGED) if name == "layout_kv" else layouts.PLAIN
        if getattr(call, name) not in known:
            yield Fault(name, f"{name} is {getattr(call, name)!r}: it must be one of {', '.join(known)}")
    if call.layout_kv == "PA_NZ" and call.head_dim % 16:
        yield Fault(
            "head_dim", f"head_dim is {call.head_dim}: layout_kv PA_NZ stores pieces of 16, so 16 must divide it"
        )


def _mask(call: CompleteMetadataCall) -> Iterator[Fault]:
    yield from mask_mode_faults(call.mask_mode)
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if call.mask_mode == MaskMode.SLIDING_WINDOW and value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (unbounded) or more")
        if call.mask_mode in (MaskMode.NO_MASK, MaskMode.CAUSAL) and value != -1:
            yield Fault(name, f"{name} is {value}: mask_mode {call.mask_mode} has no window, so it must be -1")


def _existence(call: CompleteMetadataCall) -> Iterator[Fault]:
    for side, layout in (("q", call.layout_q), ("kv", call.layout_kv)):
        cu_name, used_name, longest_name = f"cu_seqlens_{side}", f"seqused_{side}", f"max_seqlen_{side}"
        packed, used = _there(getattr(call, cu_name)), _there(getattr(call, used_name))
        if layout == "TND" and not packed:
            yield Fault(cu_name, f"{cu_name} is missing: layout_{side} TND needs it, int32 [B + 1]")
        if layout in layouts.PAGED and not used:
            yield Fault(used_name, f"{used_name} is missing: layout_{side} {layout} needs it, int32 [B]")
        if layout not in ("BNSD", "BSND"):
            continue
        if packed:
            yield Fault(cu_name, f"{cu_name} is given, but layout_{side} is {layout}: only TND packs sequences")
        if getattr(call, longest_name) <= 0 and not used:
            yield Fault(
                longest_name,
                f"{longest_name} is {getattr(call, longest_name)}: layout_{side} {layout} needs it, the length S of "
                f"the tensor, or {used_name}",
            )
        if side == "q" and call.batch_size <= 0 and not used:
            yield Fault(
                "batch_size", f"batch_size is {call.batch_size}: layout_q {layout} needs it, B of q, or seqused_q"
            )


def _there(x: Tensor | None) -> bool:
    """Upstream's idea of a given tensor."""
    return x is not None and x.dim() > 0 and x.shape[0] > 0


def _consistency(call: CompleteMetadataCall) -> Iterator[Fault]:
    if call.batch_size <= 0:
        return  # upstream compares with batch_size or not at all
    for name in LENGTHS:
        x: Tensor | None = getattr(call, name)
        expected = (call.batch_size + name.startswith("cu_"),)
        if x is not None and _there(x) and tuple(x.shape) != expected:
            yield Fault(
                name, f"{name} is {seen(x)}: with batch_size {call.batch_size} it must be int32 {list(expected)}"
            )
    if call.num_heads_kv > 0 and call.num_heads_q % call.num_heads_kv:
        yield Fault(
            "num_heads_q",
            f"num_heads_q is {call.num_heads_q} and num_heads_kv is {call.num_heads_kv}: the first must be a "
            "multiple of the second",
        )
