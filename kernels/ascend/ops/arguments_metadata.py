"""What flash_attn_metadata refuses, in its order: the Python wrapper, base attributes, mask, existence, consistency.

Sources: flash_attn_metadata, torch_extension and op_host/flash_attn_metadata_check.h. What its AICPU kernel looks at is in
values.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments_forward import BATCH_LIMIT, HEAD_DIMS
from kernels.ascend.ops.calls import FlashAttnMetadataCall
from kernels.ascend.ops.faults import Fault, one_device, seen
from kernels.ascend.ops.mask_mode import MaskMode

LENGTHS = ("cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv")


def batch_of(call: FlashAttnMetadataCall) -> int:
    """How many sequences there are. Raises ValueError when nothing says so, as upstream's wrapper does."""
    if call.seqused_q is not None:
        return call.seqused_q.numel()
    if call.cu_seqlens_q is not None:
        return call.cu_seqlens_q.numel() - 1
    if call.batch_size is None or call.batch_size < 0:
        raise ValueError("flash_attn_metadata: batch_size must be given and not negative when neither seqused_q nor "
                         f"cu_seqlens_q is there to count sequences; it is {call.batch_size}")  # fmt: skip
    return call.batch_size


def metadata_call_faults(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    """Every fault of the call but those of the values in its tensors. call holds defaults in place of None (complete)."""
    yield from one_device({name: getattr(call, name) for name in LENGTHS})
    yield from platform.faults()
    yield from _base(call)
    yield from _mask(call)
    yield from _existence(call)
    yield from _consistency(call)


def _base(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    if call.batch_size != -1 and not 0 < call.batch_size < BATCH_LIMIT:
        yield Fault("batch_size", f"batch_size is {call.batch_size}: it must be more than 0 and less than {BATCH_LIMIT}, or "
                                  "-1 (not given)")  # fmt: skip
    for name in ("max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (not given) or not negative")
    for name in ("num_heads_q", "num_heads_kv"):
        value = getattr(call, name)
        if value <= 0:
            yield Fault(name, f"{name} is {value}: it must be more than 0")
    if (call.head_dim, call.head_dim_v) not in HEAD_DIMS:
        pairs = ", ".join(f"{d} and {dv}" for d, dv in HEAD_DIMS)
        yield Fault("head_dim", f"head_dim is {call.head_dim} and head_dim_v is {call.head_dim_v}: supported pairs are "
                                f"{pairs}")  # fmt: skip
    for name in ("layout_q", "layout_out", "layout_kv"):
        known = layouts.PLAIN + (layouts.PAGED if name == "layout_kv" else ())
        if getattr(call, name) not in known:
            yield Fault(name, f"{name} is {getattr(call, name)!r}: it must be one of {', '.join(known)}")
    if call.layout_kv == "PA_NZ" and call.head_dim % 16:
        yield Fault("head_dim", f"head_dim is {call.head_dim}: layout_kv PA_NZ stores pieces of 16, so it must be a "
                                "multiple of 16")  # fmt: skip


def _mask(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    if call.mask_mode not in set(MaskMode):
        yield Fault("mask_mode", f"mask_mode is {call.mask_mode}: it must be 0 (no mask), 3 (causal) or 4 (sliding "
                                 "window)")  # fmt: skip
        return
    windowed = call.mask_mode == MaskMode.SLIDING_WINDOW
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if windowed and value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (unbounded) or more")
        if not windowed and value != -1:
            yield Fault(name, f"{name} is {value}: mask_mode {call.mask_mode} has no window, so it must be -1")


def _existence(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    if call.layout_q == "TND":
        if not _there(call.cu_seqlens_q):
            yield Fault("cu_seqlens_q", "cu_seqlens_q is missing: layout_q TND needs it, int32 [B + 1]")
    else:
        if _there(call.cu_seqlens_q):
            yield Fault("cu_seqlens_q", f"cu_seqlens_q is given, but layout_q is {call.layout_q}: only TND packs sequences")
        if call.max_seqlen_q <= 0 and not _there(call.seqused_q):
            yield Fault("max_seqlen_q", f"max_seqlen_q is {call.max_seqlen_q}: layout_q {call.layout_q} needs it (S1 of q), "
                                        "or seqused_q")  # fmt: skip
        if call.batch_size <= 0 and not _there(call.seqused_q):
            yield Fault("batch_size", f"batch_size is {call.batch_size}: layout_q {call.layout_q} needs it (B of q), or "
                                      "seqused_q")  # fmt: skip
    if call.layout_kv == "TND":
        if not _there(call.cu_seqlens_kv):
            yield Fault("cu_seqlens_kv", "cu_seqlens_kv is missing: layout_kv TND needs it, int32 [B + 1]")
    elif call.layout_kv in layouts.PAGED:
        if not _there(call.seqused_kv):
            yield Fault("seqused_kv", f"seqused_kv is missing: layout_kv {call.layout_kv} needs it, int32 [B]")
    else:
        if _there(call.cu_seqlens_kv):
            yield Fault("cu_seqlens_kv", f"cu_seqlens_kv is given, but layout_kv is {call.layout_kv}: only TND packs "
                                         "sequences")  # fmt: skip
        if call.max_seqlen_kv <= 0 and not _there(call.seqused_kv):
            yield Fault("max_seqlen_kv", f"max_seqlen_kv is {call.max_seqlen_kv}: layout_kv {call.layout_kv} needs it (S2 "
                                         "of k), or seqused_kv")  # fmt: skip


def _there(x: Tensor | None) -> bool:
    """Upstream's idea of a given tensor."""
    return x is not None and x.dim() > 0 and x.shape[0] > 0


def _consistency(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    if call.batch_size <= 0:
        return  # upstream compares with batch_size or not at all
    for name in LENGTHS:
        x: Tensor | None = getattr(call, name)
        if x is None or not _there(x):
            continue
        length = call.batch_size + name.startswith("cu_")
        if x.dim() != 1 or x.numel() != length:
            yield Fault(name, f"{name} is {seen(x)}: with batch_size {call.batch_size} it must be int32 [{length}]")
    if call.num_heads_kv > 0 and call.num_heads_q % call.num_heads_kv:
        yield Fault("num_heads_q", f"num_heads_q is {call.num_heads_q} and num_heads_kv is {call.num_heads_kv}: the first "
                                   "must be a multiple of the second")  # fmt: skip
