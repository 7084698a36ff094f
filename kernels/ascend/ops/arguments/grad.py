"""What flash_attn_grad refuses, checker by checker in the order of its host code.

Sources: flash_attn_grad, op definition, then op_host/checkers: feature (deterministic), input (existence, dtype), attr
(range, mask, layout), shape. The rules of _documented are in the document only; upstream does not check them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import fields

import torch
from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments.faults import Fault, one_device, seen
from kernels.ascend.ops.arguments.forward_alone import (
    MASK_RULE,
    length_faults,
    mask_mode_faults,
    metadata_faults,
)
from kernels.ascend.ops.arguments.forward_together import (
    DTYPE_RULE,
    DTYPES,
    cu_seqlens_faults,
    mask_exists_faults,
)
from kernels.ascend.ops.calls import LAYOUT_ARGUMENTS, LENGTHS, FlashAttnGradCall
from kernels.ascend.ops.mask_mode import MASK_SHAPE, MaskMode

REQUIRED = ("q", "k", "v", "dout", "attn_out", "softmax_lse")
LARGEST_DIM = 192


def flash_attn_grad_faults(call: FlashAttnGradCall) -> Iterator[Fault]:
    """Every fault of the call but those of metadata's content, in the order in which the operator looks."""
    missing = [name for name in REQUIRED if getattr(call, name) is None]
    for name in missing:
        yield Fault(name, f"{name} is missing: {', '.join(REQUIRED)} must be tensors")
    if missing:
        return
    given = {f.name: getattr(call, f.name) for f in fields(call)}
    yield from one_device({name: x for name, x in given.items() if isinstance(x, Tensor)})
    yield from platform.platform_faults()
    yield from _definition(call)
    yield from _deterministic()
    yield from _dtypes(call)
    yield from _ranges(call)
    yield from _mask(call)
    readable = yield from _layouts(call)
    if readable:
        readable = yield from _ranks(call)
    if readable:
        yield from _sizes(call)
        yield from _documented(call)


def _definition(call: FlashAttnGradCall) -> Iterator[Fault]:
    """The dtypes that the operator is built for."""
    for name in ("q", "k", "v", "dout", "attn_out"):
        x = getattr(call, name)
        if x.dtype not in DTYPES:
            yield Fault(name, f"{name} is {seen(x)}: {DTYPE_RULE}")
    others = {"softmax_lse": torch.float32, "sinks": torch.float32, "attn_mask": torch.int8, "metadata": torch.int32}
    for name, dtype in {**others, **dict.fromkeys(LENGTHS, torch.int32)}.items():
        x = getattr(call, name)
        if x is not None and x.dtype != dtype:
            yield Fault(name, f"{name} is {seen(x)}: it must be {str(dtype).removeprefix('torch.')}")


def _deterministic() -> Iterator[Fault]:
    if torch.are_deterministic_algorithms_enabled():
        yield Fault(
            "deterministic",
            "deterministic algorithms are switched on, but this operator adds up gradients in the order in which its "
            "cores finish: torch.use_deterministic_algorithms(False), or the older torch_npu.npu_fusion_attention",
        )


def _dtypes(call: FlashAttnGradCall) -> Iterator[Fault]:
    for name in ("k", "v", "dout", "attn_out"):
        x = getattr(call, name)
        if x.dtype != call.q.dtype:
            yield Fault(
                name, f"{name} is {seen(x)} and q is {seen(call.q)}: q, k, v, dout and attn_out must have one dtype"
            )


def _ranges(call: FlashAttnGradCall) -> Iterator[Fault]:
    yield from mask_mode_faults(call.mask_mode)
    for name in ("win_left", "win_right", "max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 or more")


def _mask(call: FlashAttnGradCall) -> Iterator[Fault]:
    yield from mask_exists_faults(call.mask_mode, call.attn_mask, call.win_left, call.win_right)
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if call.mask_mode == MaskMode.SLIDING_WINDOW and value < 0:
            yield Fault(
                name,
                f"{name} is {value}: flash_attn_grad takes windows of 0 or more only. For a side without bound give "
                "metadata, forward and backward the longest sequence's length in place of -1",
            )
    x = call.attn_mask
    if x is not None and tuple(x.shape) != MASK_SHAPE:
        yield Fault("attn_mask", f"attn_mask is {seen(x)}: {MASK_RULE}")


def _layouts(call: FlashAttnGradCall) -> Generator[Fault, None, bool]:
    readable = True
    for name in LAYOUT_ARGUMENTS:
        if getattr(call, name) not in layouts.PLAIN:
            yield Fault(
                name,
                f"{name} is {getattr(call, name)!r}: it must be one of {', '.join(layouts.PLAIN)}; no gradient goes "
                "through pages",
            )
            readable = False
    for name in LAYOUT_ARGUMENTS:
        if getattr(call, name) != call.layout_q:
            yield Fault(
                name, f"{name} is {getattr(call, name)} and layout_q is {call.layout_q}: all three must be equal"
            )
            readable = False
    return readable


def _ranks(call: FlashAttnGradCall) -> Generator[Fault, None, bool]:
    readable, axes = True, layouts.AXES[call.layout_q]
    for name in ("q", "k", "v", "dout", "attn_out"):
        x: Tensor = getattr(call, name)
        if x.dim() != len(axes):
            yield Fault(name, f"{name} is {seen(x)}: layout {call.layout_q} has {len(axes)} axes ({', '.join(axes)})")
            readable = False
    if call.layout_q == "TND" and call.softmax_lse.dim() != 2:
        yield Fault("softmax_lse", f"softmax_lse is {seen(call.softmax_lse)}: with layout TND it is [N1, T1]")
    return readable


def _sizes(call: FlashAttnGradCall) -> Iterator[Fault]:
    yield from _same(call, "D", ("k",), "q")
    yield from _same(call, "D", ("dout", "attn_out"), "v")
    dim, dim_v = call.of_q("D"), call.v.shape[-1]
    if not 0 < dim_v <= dim <= LARGEST_DIM:
        name, has = ("q", f"D = {dim}") if dim > LARGEST_DIM or dim == 0 else ("v", f"Dv = {dim_v}, with D = {dim}")
        yield Fault(name, f"{name} has the head dim {has}: the rule is 0 < Dv <= D <= {LARGEST_DIM}")
    yield from _same(call, "N", ("dout", "attn_out"), "q")
    yield from _same(call, "N", ("v",), "k")
    heads_q, heads_kv = call.of_q("N"), call.of_kv("N")
    if heads_kv == 0 or heads_q % heads_kv:
        yield Fault("k", f"k has N2 = {heads_kv} heads, q has N1 = {heads_q}: N1 must be a multiple of N2 > 0")
    if call.layout_q != "TND":
        yield from _same(call, "S", ("dout", "attn_out"), "q")
        yield from _same(call, "S", ("v",), "k")
        yield from _same(call, "B", ("k", "v", "dout", "attn_out"), "q")
    for name in ("cu_seqlens_q", "cu_seqlens_kv"):
        x: Tensor | None = getattr(call, name)
        yield from cu_seqlens_faults(name, x, call.layout_q)
        if x is not None and x.dim() != 1:
            yield Fault(name, f"{name} is {seen(x)}: it must have 1 axis, not {x.dim()}")


def _same(call: FlashAttnGradCall, axis: str, names: tuple[str, ...], like: str) -> Iterator[Fault]:
    model: Tensor = getattr(call, like)
    expected = layouts.size(axis, call.layout_q, model.shape)
    for name in names:
        x: Tensor = getattr(call, name)
        found = layouts.size(axis, call.layout_q, x.shape)
        if found != expected:
            shown = " and ".join(f"{n} {layouts.named(call.layout_q, y.shape)}" for n, y in ((name, x), (like, model)))
            yield Fault(name, f"{name} has {axis} = {found}, {like} has {expected}: they must be equal ({shown})")


def _documented(call: FlashAttnGradCall) -> Iterator[Fault]:
    """On hardware these read other memory than they should."""
    expected = layouts.lse_shape(call.layout_q, call.q.shape)
    if tuple(call.softmax_lse.shape) != expected:
        axes = "[N1, T1]" if call.layout_q == "TND" else "[B, N1, S1]"
        yield Fault(
            "softmax_lse",
            f"softmax_lse is {seen(call.softmax_lse)}: it must be {axes} = {list(expected)}, as flash_attn returns it "
            "with return_softmax_lse=True",
        )
    for name in ("q", "k", "v"):
        if 0 in getattr(call, name).shape:
            yield Fault(name, f"{name} is an empty tensor, {list(getattr(call, name).shape)}: no axis may be 0")
    if call.layout_q == "TND":
        yield from _same(call, "T", ("dout", "attn_out"), "q")
        yield from _same(call, "T", ("v",), "k")
    if call.layout_q != "TND" or call.cu_seqlens_q is not None:
        for name in LENGTHS:
            x: Tensor | None = getattr(call, name)
            if x is not None:
                yield from length_faults(name, x, call.batch)
    heads = call.of_q("N")
    if call.sinks is not None and tuple(call.sinks.shape) != (heads,):
        yield Fault("sinks", f"sinks is {seen(call.sinks)}: it must be float32 [N1] = [{heads}]")
    yield from metadata_faults(call.metadata)
