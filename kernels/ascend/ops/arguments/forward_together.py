"""flash_attn's existence and multi-parameter phases: which arguments need each other, and which sizes must agree."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kernels.ascend.ops import layouts
from kernels.ascend.ops.arguments.faults import Fault, seen
from kernels.ascend.ops.arguments.forward_alone import MASK_RULE
from kernels.ascend.ops.calls import FlashAttnCall
from kernels.ascend.ops.mask_mode import MaskMode

HEAD_DIMS = ((64, 64), (72, 72), (128, 128), (256, 256), (192, 128))  # (D of q and k, Dv of v)
HEAD_DIMS_TEXT = ", ".join(f"({d}, {dv})" for d, dv in HEAD_DIMS)
DTYPES = (torch.float16, torch.bfloat16)
BATCH_LIMIT = 65536
DTYPE_RULE = "it must be float16 or bfloat16; cast with .half() or .bfloat16(), and the result back"


def faults_together(call: FlashAttnCall) -> Iterator[Fault]:
    for checker in (
        _lengths_exist, _pages_exist, _mask_exists, _lse_exists,
        _layouts_agree, _dtypes, _sizes_agree, _sizes_supported, _out_agrees, _pages_agree, _strides,
    ):  # fmt: skip
        yield from checker(call)


def _lengths_exist(call: FlashAttnCall) -> Iterator[Fault]:
    if call.paged and call.seqused_kv is None:
        yield Fault(
            "seqused_kv",
            f"seqused_kv is missing: with layout_kv {call.layout_kv} it alone says how many keys each sequence has, "
            "int32 [B]",
        )
    yield from cu_seqlens_faults("cu_seqlens_q", call.cu_seqlens_q, call.layout_q)
    yield from cu_seqlens_faults("cu_seqlens_kv", call.cu_seqlens_kv, call.layout_kv)


def cu_seqlens_faults(name: str, x: Tensor | None, layout: str) -> Iterator[Fault]:
    if layout == "TND" and x is None:
        yield Fault(name, f"{name} is missing: layout TND needs it, int32 [B + 1], for example [0, 3, 8]")
    elif layout != "TND" and x is not None:
        yield Fault(
            name,
            f"{name} is given, {seen(x)}, but the layout is {layout}: only TND packs sequences. To shorten sequences "
            "give seqused",
        )


def _pages_exist(call: FlashAttnCall) -> Iterator[Fault]:
    table = call.block_table
    if table is not None and not call.paged:
        yield Fault(
            "block_table",
            f"block_table is given, {seen(table)}, but layout_kv is {call.layout_kv}: only {', '.join(layouts.PAGED)} "
            "have blocks",
        )


def _mask_exists(call: FlashAttnCall) -> Iterator[Fault]:
    yield from mask_exists_faults(call.mask_mode, call.attn_mask, call.win_left, call.win_right)


def mask_exists_faults(mask_mode: int, attn_mask: Tensor | None, win_left: int, win_right: int) -> Iterator[Fault]:
    """Which mask wants attn_mask, and which one windows."""
    if mask_mode == MaskMode.NO_MASK and attn_mask is not None:
        yield Fault(
            "attn_mask",
            "attn_mask is given, but mask_mode 0 hides nothing: leave it out, or ask for mask_mode 3 (causal) or 4 "
            "(sliding window)",
        )
    if mask_mode in (MaskMode.CAUSAL, MaskMode.SLIDING_WINDOW) and attn_mask is None:
        yield Fault("attn_mask", f"attn_mask is missing: mask_mode {mask_mode} needs it, and {MASK_RULE}")
    for name, value in (("win_left", win_left), ("win_right", win_right)):
        if mask_mode in (MaskMode.NO_MASK, MaskMode.CAUSAL) and value != -1:
            yield Fault(
                name,
                f"{name} is {value}: mask_mode {mask_mode} has no window, so it must be -1; mask_mode 4 has one",
            )


def _lse_exists(call: FlashAttnCall) -> Iterator[Fault]:
    if call.return_softmax_lse and call.attn_out is not None and call.softmax_lse is None:
        yield Fault(
            "softmax_lse",
            "softmax_lse is missing: return_softmax_lse asks for it, and the caller allocates the outputs (attn_out is "
            "given)",
        )


def _layouts_agree(call: FlashAttnCall) -> Iterator[Fault]:
    if call.layout_q not in layouts.TOGETHER:
        return
    of_kv, of_out = layouts.TOGETHER[call.layout_q]
    for name, allowed in (("layout_kv", of_kv), ("layout_out", of_out)):
        if getattr(call, name) not in allowed:
            yield Fault(
                name,
                f"{name} is {getattr(call, name)}: layout_q {call.layout_q} takes layout_kv {', '.join(of_kv)} and "
                f"layout_out {', '.join(of_out)} ({call.shapes()})",
            )


def _dtypes(call: FlashAttnCall) -> Iterator[Fault]:
    tensors = {name: x for name in ("q", "k", "v", "attn_out") if (x := getattr(call, name)) is not None}
    for name, x in tensors.items():
        if x.dtype not in DTYPES:
            yield Fault(name, f"{name} is {seen(x)}: {DTYPE_RULE}")
    for name, x in tensors.items():
        if x.dtype != call.q.dtype:
            yield Fault(name, f"{name} is {seen(x)} and q is {seen(call.q)}: q, k, v and attn_out must have one dtype")


def _sizes_agree(call: FlashAttnCall) -> Iterator[Fault]:
    """k with q, v with k, axis by axis."""
    wrong = []
    if "B" in layouts.AXES[call.layout_kv] and call.of_kv("B") != call.batch:
        wrong.append(f"B is {call.batch} in q and {call.of_kv('B')} in k")
    if call.of_kv("D") != call.of_q("D"):
        wrong.append(f"D is {call.of_q('D')} in q and {call.of_kv('D')} in k")
    if call.layout_kv == "PA_NZ" and call.k.shape[4] != 16:
        wrong.append(f"the last axis of k is {call.k.shape[4]}, not 16")
    if wrong:
        yield Fault("k", f"k does not fit q: {'; '.join(wrong)} ({call.shapes()})")
    wrong = [
        f"{axis} is {in_k} in k and {in_v} in v"
        for axis, in_k, in_v in zip(layouts.AXES[call.layout_kv], call.k.shape, call.v.shape, strict=True)
        if axis not in ("D", "D/16") and in_k != in_v
    ]
    if wrong:
        yield Fault("v", f"v does not fit k: {'; '.join(wrong)} ({call.shapes()})")


def _sizes_supported(call: FlashAttnCall) -> Iterator[Fault]:
    if call.batch >= BATCH_LIMIT:
        yield Fault("q", f"q has B = {call.batch} sequences: it must be less than {BATCH_LIMIT}")
    dim, dim_v = call.of_q("D"), layouts.size("D", call.layout_kv, call.v.shape)
    if (dim, dim_v) not in HEAD_DIMS:
        name, has = ("v", f"Dv = {dim_v}, with D = {dim}") if dim in dict(HEAD_DIMS) else ("q", f"head dim D = {dim}")
        yield Fault(
            name,
            f"{name} has {has}: supported pairs (D, Dv) are {HEAD_DIMS_TEXT}. Pad with zeros to the next pair; "
            "softmax_scale stays that of the unpadded D",
        )


def _out_agrees(call: FlashAttnCall) -> Iterator[Fault]:
    x = call.attn_out
    if x is not None and call.layout_out in layouts.TOGETHER.get(call.layout_q, ((), ()))[1]:
        expected = call.out_shape
        if tuple(x.shape) != expected:
            yield Fault(
                "attn_out",
                f"attn_out is {seen(x)}: layout_out {call.layout_out} makes it {list(expected)}",
            )


def _pages_agree(call: FlashAttnCall) -> Iterator[Fault]:
    table = call.block_table
    if call.paged and table is not None and table.dim() == 2 and table.shape[0] != call.batch:
        yield Fault(
            "block_table", f"block_table is {seen(table)}: it must have one row for each of B = {call.batch} sequences"
        )


def _strides(call: FlashAttnCall) -> Iterator[Fault]:
    """q is made contiguous, k and v are not: in pages the outermost axes may be strided, otherwise none."""
    free = {"PA_BBND": 1, "PA_BNBD": 2, "PA_NZ": 2}.get(call.layout_kv, 0)
    for name, x in (("k", call.k), ("v", call.v)):
        text = f"{name} is {list(x.shape)} with strides {list(x.stride())}"
        if any(step == 0 and n > 1 for step, n in zip(x.stride(), x.shape)):
            yield Fault(name, f"{text}: a stride of 0, as expand makes it, is not taken; use .contiguous()")
        elif not free and not x.is_contiguous():
            yield Fault(name, f"{text}: layout_kv {call.layout_kv} needs it contiguous; use .contiguous()")
        elif not _dense_from(x, free):
            yield Fault(name, f"{text}: in layout_kv {call.layout_kv} only the first {free} of its axes may be strided")


def _dense_from(x: Tensor, axis: int) -> bool:
    """Whether x lies without gaps from this axis on."""
    expected = 1
    for n, step in reversed(list(zip(x.shape[axis:], x.stride()[axis:]))):
        if n > 1 and step != expected:
            return False
        expected *= n
    return True
