"""What flash_attn_grad refuses, checker by checker in the order of its host code.

Sources: flash_attn_grad, op definition, then op_host/checkers: deterministic, input existence, dtype, attribute range,
mask, layout, shape. Three rules at the end are ours: upstream documents them and does not check them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments_forward import DTYPES, MASK_RECIPE, mask_presence_faults, metadata_faults
from kernels.ascend.ops.calls import FlashAttnGradCall
from kernels.ascend.ops.faults import Fault, one_device, seen
from kernels.ascend.ops.mask_mode import MASK_SIDE, MaskMode

REQUIRED = ("q", "k", "v", "dout", "attn_out", "softmax_lse")
LENGTHS = ("cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv")
LARGEST_DIM = 192


def grad_faults(call: FlashAttnGradCall) -> Iterator[Fault]:
    """Every fault of the call but those of metadata's content, in the order in which the operator looks."""
    readable = yield from _inputs(call)
    if not readable:
        return
    yield from _definition(call)
    yield from _deterministic()
    yield from _dtypes(call)
    yield from _attributes(call)
    yield from _mask(call)
    readable = yield from _layouts(call)
    if not readable:
        return
    yield from _shapes(call)
    yield from _documented_only(call)


def _inputs(call: FlashAttnGradCall) -> Generator[Fault, None, bool]:
    missing = [name for name in REQUIRED if getattr(call, name) is None]
    for name in missing:
        yield Fault(name, f"{name} is missing: {', '.join(REQUIRED)} must be tensors")
    if missing:
        return False
    names = (*REQUIRED, *LENGTHS, "sinks", "attn_mask", "metadata")
    yield from one_device({name: getattr(call, name) for name in names})
    yield from platform.faults()
    return True


def _definition(call: FlashAttnGradCall) -> Iterator[Fault]:
    """The dtypes that the operator is built for."""
    for name in ("q", "k", "v", "dout", "attn_out"):
        x = getattr(call, name)
        if x.dtype not in DTYPES:
            yield Fault(name, f"{name} is {seen(x)}: it must be float16 or bfloat16; cast with .half() or .bfloat16()")
    others = {"softmax_lse": torch.float32, "sinks": torch.float32, "attn_mask": torch.int8, "metadata": torch.int32}
    for name, dtype in {**others, **dict.fromkeys(LENGTHS, torch.int32)}.items():
        x = getattr(call, name)
        if x is not None and x.dtype != dtype:
            yield Fault(name, f"{name} is {seen(x)}: it must be {str(dtype).removeprefix('torch.')}")


def _deterministic() -> Iterator[Fault]:
    if torch.are_deterministic_algorithms_enabled():
        yield Fault("deterministic", "deterministic algorithms are switched on, and this operator adds up gradients in "
                                     "whatever order its cores finish: torch.use_deterministic_algorithms(False), or "
                                     "torch_npu.npu_fusion_attention")  # fmt: skip


def _dtypes(call: FlashAttnGradCall) -> Iterator[Fault]:
    for name in ("k", "v", "dout", "attn_out"):
        x = getattr(call, name)
        if x.dtype != call.q.dtype:
            yield Fault(name, f"{name} is {seen(x)} and q is {seen(call.q)}: q, k, v, dout and attn_out must have one "
                              "dtype")  # fmt: skip


def _attributes(call: FlashAttnGradCall) -> Iterator[Fault]:
    if call.mask_mode not in set(MaskMode):
        yield Fault("mask_mode", f"mask_mode is {call.mask_mode}: it must be 0 (no mask), 3 (causal) or 4 (sliding "
                                 "window)")  # fmt: skip
    for name in ("win_left", "win_right", "max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 or more")


def _mask(call: FlashAttnGradCall) -> Iterator[Fault]:
    yield from mask_presence_faults(call.mask_mode, call.attn_mask, call.win_left, call.win_right)
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if call.mask_mode == MaskMode.SLIDING_WINDOW and value < 0:
            yield Fault(name, f"{name} is {value}: in flash_attn_grad mask_mode 4 takes 0 or more only. For an unbounded "
                              "side give all three calls the longest sequence's length instead of -1")  # fmt: skip
    x = call.attn_mask
    if x is not None and list(x.shape) != [MASK_SIDE, MASK_SIDE]:
        yield Fault("attn_mask", f"attn_mask is {seen(x)}: it must be int8 [{MASK_SIDE}, {MASK_SIDE}] whatever the "
                                 f"lengths, 1 = hidden: {MASK_RECIPE}")  # fmt: skip


def _layouts(call: FlashAttnGradCall) -> Generator[Fault, None, bool]:
    names = ("layout_q", "layout_kv", "layout_out")
    unknown = [name for name in names if getattr(call, name) not in layouts.PLAIN]
    for name in unknown:
        yield Fault(name, f"{name} is {getattr(call, name)!r}: it must be one of {', '.join(layouts.PLAIN)}; there is no "
                          "gradient through paged keys")  # fmt: skip
    differs = [name for name in names if getattr(call, name) != call.layout_q]
    for name in differs:
        yield Fault(name, f"{name} is {getattr(call, name)} and layout_q is {call.layout_q}: all three must be equal")
    return not unknown and not differs


def _shapes(call: FlashAttnGradCall) -> Iterator[Fault]:
    layout, axes = call.layout_q, layouts.AXES[call.layout_q]
    wrong_rank = False
    for name in ("q", "k", "v", "dout", "attn_out"):
        x: Tensor = getattr(call, name)
        if x.dim() != len(axes):
            wrong_rank = True
            yield Fault(name, f"{name} is {seen(x)}: layout {layout} has the axes ({', '.join(axes)})")
    if layout == "TND" and call.softmax_lse.dim() != 2:
        yield Fault("softmax_lse", f"softmax_lse is {seen(call.softmax_lse)}: with layout TND it is [N1, T1]")
    if wrong_rank:
        return
    yield from _head_dims(call)
    yield from _same(call, "N", ("dout", "attn_out"), "q")
    yield from _same(call, "N", ("v",), "k")
    heads_q, heads_kv = call.of_q("N"), call.kv("N")
    if heads_kv == 0 or heads_q % heads_kv:
        yield Fault("k", f"q has N1 = {heads_q} heads and k has N2 = {heads_kv}: N1 must be a multiple of N2, and N2 must "
                         "not be 0")  # fmt: skip
    if layout != "TND":
        yield from _same(call, "S", ("dout", "attn_out"), "q")
        yield from _same(call, "S", ("v",), "k")
        yield from _same(call, "B", ("k", "v", "dout", "attn_out"), "q")
    for name in ("cu_seqlens_q", "cu_seqlens_kv"):
        x_or_none = getattr(call, name)
        if layout == "TND" and (x_or_none is None or x_or_none.dim() != 1):
            state = "missing" if x_or_none is None else seen(x_or_none)
            yield Fault(name, f"{name} is {state}: layout TND needs it, int32 [B + 1], for example [0, 3, 8]")
        if layout != "TND" and x_or_none is not None:
            yield Fault(name, f"{name} is given, {seen(x_or_none)}, but the layout is {layout}: only TND packs sequences")


def _head_dims(call: FlashAttnGradCall) -> Iterator[Fault]:
    yield from _same(call, "D", ("k",), "q")
    yield from _same(call, "D", ("dout", "attn_out"), "v")
    dim, dim_v = call.q.shape[-1], call.v.shape[-1]
    if not 0 < dim_v <= dim <= LARGEST_DIM:
        yield Fault("v" if dim_v > dim else "q", f"head dims: D = {dim} (q, k) and Dv = {dim_v} (v); the rule is 0 < Dv <= "
                                                 f"D <= {LARGEST_DIM}")  # fmt: skip


def _same(call: FlashAttnGradCall, axis: str, names: tuple[str, ...], like: str) -> Iterator[Fault]:
    model: Tensor = getattr(call, like)
    expected = layouts.size(axis, call.layout_q, model.shape)
    for name in names:
        x: Tensor = getattr(call, name)
        found = layouts.size(axis, call.layout_q, x.shape)
        if found != expected:
            yield Fault(name, f"{name} has {axis} = {found} and {like} has {expected}: they must be equal "
                              f"({name} {layouts.named(call.layout_q, x.shape)}, {like} "
                              f"{layouts.named(call.layout_q, model.shape)})")  # fmt: skip


def _documented_only(call: FlashAttnGradCall) -> Iterator[Fault]:
    """Reading beyond a tensor is what hardware would do with these."""
    expected = layouts.lse_shape(call.layout_q, call.q.shape)
    if tuple(call.softmax_lse.shape) != expected:
        axes = "[N1, T1]" if call.layout_q == "TND" else "[B, N1, S1]"
        yield Fault("softmax_lse", f"softmax_lse is {seen(call.softmax_lse)}: it must be {axes} = {list(expected)}, as "
                                   "flash_attn returns it with return_softmax_lse=True")  # fmt: skip
    if call.layout_q == "TND":
        yield from _same(call, "T", ("dout", "attn_out"), "q")
        yield from _same(call, "T", ("v",), "k")
    for name in LENGTHS:
        x: Tensor | None = getattr(call, name)
        length = call.batch + name.startswith("cu_")
        if x is not None and list(x.shape) != [length]:
            yield Fault(name, f"{name} is {seen(x)}: it must have {length} values for B = {call.batch} sequences")
    yield from metadata_faults(call.metadata)
