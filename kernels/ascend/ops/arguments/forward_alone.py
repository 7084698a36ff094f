"""flash_attn's single-parameter phase: what each argument must be, whatever the others are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kernels.ascend.ops import layouts
from kernels.ascend.ops.arguments.faults import Fault, seen
from kernels.ascend.ops.calls import CU_SEQLENS, SEQUSED, FlashAttnCall
from kernels.ascend.ops.mask_mode import MASK_SHAPE, MaskMode

MASK_RULE = (
    f"it must be int8 {list(MASK_SHAPE)} whatever the lengths, 1 = hidden: "
    'torch.triu(torch.ones(2048, 2048, dtype=torch.int8), diagonal=1).to("npu")'
)


def faults_alone(call: FlashAttnCall) -> Iterator[Fault]:
    for checker in (_lengths, _pages, _mask, _sinks, _metadata, _lse):
        yield from checker(call)


def layout_faults(call: FlashAttnCall) -> Iterator[Fault]:
    """This phase's first checker."""
    for name in ("layout_q", "layout_out"):
        layout = getattr(call, name)
        if layout not in layouts.PLAIN:
            yield Fault(
                name, f"{name} is {layout}: it must be one of {', '.join(layouts.PLAIN)}; only k and v have pages"
            )


def _lengths(call: FlashAttnCall) -> Iterator[Fault]:
    for name in (*SEQUSED, *CU_SEQLENS):
        x: Tensor | None = getattr(call, name)
        if x is not None:
            yield from length_faults(name, x, call.batch)
    for name in ("max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (not given) or more")


def length_faults(name: str, x: Tensor, batch: int) -> Iterator[Fault]:
    """A seqused_* has one value per sequence, a cu_seqlens_* one more."""
    expected, meaning = (batch + 1, "B + 1") if name.startswith("cu_") else (batch, "B")
    if x.dtype != torch.int32:
        yield Fault(name, f"{name} is {seen(x)}: it must be int32; use .to(torch.int32)")
    elif x.dim() != 1:
        yield Fault(name, f"{name} is {seen(x)}: it must have 1 axis, not {x.dim()}")
    elif x.numel() != expected:
        yield Fault(name, f"{name} is {seen(x)}: it must have {meaning} = {expected} values")


def _pages(call: FlashAttnCall) -> Iterator[Fault]:
    if not call.paged:
        return
    size, table = call.block_size, call.block_table
    if not 16 <= size <= 1024 or size % 16:
        yield Fault(
            "k",
            f"k is {layouts.named(call.layout_kv, call.k.shape)}: block_size = {size} must be a multiple of 16, from "
            "16 to 1024",
        )
    if table is not None and table.dtype != torch.int32:
        yield Fault("block_table", f"block_table is {seen(table)}: it must be int32; use .to(torch.int32)")
    elif table is not None and table.dim() != 2:
        yield Fault(
            "block_table", f"block_table is {seen(table)}: it must have 2 axes [B, max_blocks], not {table.dim()}"
        )


def _mask(call: FlashAttnCall) -> Iterator[Fault]:
    yield from mask_mode_faults(call.mask_mode)
    x = call.attn_mask
    if x is not None and (x.dtype != torch.int8 or tuple(x.shape) != MASK_SHAPE):
        yield Fault("attn_mask", f"attn_mask is {seen(x)}: {MASK_RULE}")
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (unbounded) or more")


def mask_mode_faults(mask_mode: int) -> Iterator[Fault]:
    if mask_mode not in set(MaskMode):
        yield Fault("mask_mode", f"mask_mode is {mask_mode}: it must be 0 (no mask), 3 (causal) or 4 (sliding window)")


def _sinks(call: FlashAttnCall) -> Iterator[Fault]:
    x, heads = call.sinks, call.of_q("N")
    if x is not None and (x.dtype != torch.float32 or tuple(x.shape) != (heads,)):
        yield Fault("sinks", f"sinks is {seen(x)}: it must be float32 [N1] = [{heads}], one logit for each query head")


def _metadata(call: FlashAttnCall) -> Iterator[Fault]:
    yield from metadata_faults(call.metadata)


def metadata_faults(x: Tensor | None) -> Iterator[Fault]:
    """What can be said of metadata without reading it."""
    if x is None:
        yield Fault(
            "metadata",
            "metadata is missing: call flash_attn_metadata first, with the same heads, head dims, lengths, layouts and "
            "mask, and pass what it returns",
        )
    elif x.dtype != torch.int32 or x.dim() != 1 or x.numel() == 0:
        yield Fault(
            "metadata",
            f"metadata is {seen(x)}: it must be int32, 1 axis, not empty, as flash_attn_metadata returns it",
        )


def _lse(call: FlashAttnCall) -> Iterator[Fault]:
    if call.return_softmax_lse not in (0, 1):
        yield Fault("return_softmax_lse", f"return_softmax_lse is {call.return_softmax_lse}: it must be True or False")
    x = call.softmax_lse
    if call.return_softmax_lse and x is not None and x.dtype != torch.float32:
        yield Fault("softmax_lse", f"softmax_lse is {seen(x)}: it must be float32")
