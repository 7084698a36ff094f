"""What flash_attn refuses, phase by phase and checker by checker in the order of its host code.

Sources: flash_attn, op_host/flash_attn_tiling_info_parser.cpp and op_host/checkers/*.cpp. A tensor's format is ND always:
PyTorch has no other, so the ND checks have nothing to find here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.calls import FlashAttnCall
from kernels.ascend.ops.faults import Fault, one_device, seen
from kernels.ascend.ops.mask_mode import MASK_SIDE, MaskMode

HEAD_DIMS = ((64, 64), (72, 72), (128, 128), (256, 256), (192, 128))  # (q and k, v)
DTYPES = (torch.float16, torch.bfloat16)
BATCH_LIMIT = 65536
MASK_RECIPE = 'torch.triu(torch.ones(2048, 2048, dtype=torch.int8), diagonal=1).to("npu")'


def forward_faults(call: FlashAttnCall) -> Iterator[Fault]:
    """Every fault of the call but those of metadata's content, in the order in which the operator looks."""
    readable = yield from _parser(call)
    if not readable:
        return  # what the axes mean is not known
    yield from _empty_tensors(call)
    for checker in (
        _single_layouts, _single_lengths, _single_pages, _single_mask, _single_sinks, _single_metadata, _single_lse,
        _exist_lengths, _exist_pages, _exist_mask, _exist_lse,
        _multi_common, _multi_pages,
    ):  # fmt: skip
        yield from checker(call)


def _parser(call: FlashAttnCall) -> Generator[Fault, None, bool]:
    tensors = {
        name: getattr(call, name)
        for name in ("q", "k", "v", "block_table", "cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv", "sinks",
                     "attn_mask", "metadata", "attn_out", "softmax_lse")
    }  # fmt: skip
    missing = [name for name in ("q", "k", "v") if tensors[name] is None]
    for name in missing:
        yield Fault(name, f"{name} is missing: q, k and v must be tensors")
    if missing:
        return False
    elsewhere = list(one_device(tensors))
    yield from elsewhere
    yield from platform.faults()
    unknown = [
        (name, value)
        for name in ("layout_q", "layout_kv", "layout_out")
        if (value := getattr(call, name)) not in layouts.AXES
    ]
    for name, value in unknown:
        yield Fault(name, f"{name} {value!r} is no layout; known are {', '.join(layouts.AXES)}")
    if unknown:
        return False
    wrong_rank = [(name, x, layout) for name, x, layout in (
        ("q", call.q, call.layout_q), ("k", call.k, call.layout_kv), ("v", call.v, call.layout_kv)
    ) if x.dim() != len(layouts.AXES[layout])]  # fmt: skip
    for name, x, layout in wrong_rank:
        yield Fault(name, f"{name} is {seen(x)}: layout {layout} has the axes ({', '.join(layouts.AXES[layout])})")
    if wrong_rank:
        return False
    heads_q, heads_kv = call.of_q("N"), call.kv("N")
    if heads_kv == 0:
        yield Fault("k", f"k has no head: {layouts.named(call.layout_kv, call.k.shape)}; N2 must not be 0")
    elif heads_q % heads_kv:
        yield Fault("q", f"q has N1 = {heads_q} heads and k has N2 = {heads_kv}: N1 must be a multiple of N2 "
                         f"({_shapes(call)})")  # fmt: skip
    readable = True
    if call.layout_q == "TND":
        if call.cu_seqlens_q is None:
            yield Fault("cu_seqlens_q", "cu_seqlens_q is missing: with layout_q TND it says where each sequence of q "
                                        "begins and ends, int32 [B + 1], for example [0, 3, 8]")  # fmt: skip
            readable = False
        elif call.cu_seqlens_q.numel() <= 1:
            yield Fault("cu_seqlens_q", f"cu_seqlens_q is {seen(call.cu_seqlens_q)}: with layout_q TND it needs B + 1 "
                                        "values, two or more")  # fmt: skip
            readable = False
    if call.paged and call.block_table is None:
        yield Fault("block_table", f"block_table is missing: layout_kv {call.layout_kv} keeps keys and values in blocks, "
                                   "and int32 [B, max_blocks] says which blocks are whose")  # fmt: skip
    return readable


def _empty_tensors(call: FlashAttnCall) -> Iterator[Fault]:
    for name in ("q", "k", "v", "attn_out"):
        x = getattr(call, name)
        if x is not None and 0 in x.shape:
            yield Fault(name, f"{name} is an empty tensor, {list(x.shape)}: no axis may be 0. A sequence of length 0 is "
                              "given through cu_seqlens or seqused")  # fmt: skip


def _single_layouts(call: FlashAttnCall) -> Iterator[Fault]:
    for name in ("layout_q", "layout_out"):
        value = getattr(call, name)
        if value not in layouts.PLAIN:
            yield Fault(name, f"{name} is {value}: it must be one of {', '.join(layouts.PLAIN)} (only layout_kv may be "
                              "paged)")  # fmt: skip


def _single_lengths(call: FlashAttnCall) -> Iterator[Fault]:
    for name in ("seqused_q", "seqused_kv", "cu_seqlens_q", "cu_seqlens_kv"):
        x: Tensor | None = getattr(call, name)
        if x is None:
            continue
        length, meaning = (call.batch, "B") if name.startswith("seqused") else (call.batch + 1, "B + 1")
        if x.dtype != torch.int32:
            yield Fault(name, f"{name} is {seen(x)}: it must be int32; use .to(torch.int32)")
        elif x.dim() != 1:
            yield Fault(name, f"{name} is {seen(x)}: it must have 1 axis, not {x.dim()}")
        elif x.numel() != length:
            yield Fault(name, f"{name} is {seen(x)}: it must have {meaning} = {length} values")
    for name in ("max_seqlen_q", "max_seqlen_kv"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (not given) or more")


def _single_pages(call: FlashAttnCall) -> Iterator[Fault]:
    if not call.paged:
        return
    size = call.block_size
    if not 16 <= size <= 1024 or size % 16:
        yield Fault("k", f"k is {layouts.named(call.layout_kv, call.k.shape)}: block_size = {size} must be a multiple of "
                         "16 from 16 to 1024")  # fmt: skip
    x = call.block_table
    if x is not None and x.dtype != torch.int32:
        yield Fault("block_table", f"block_table is {seen(x)}: it must be int32")
    elif x is not None and x.dim() != 2:
        yield Fault("block_table", f"block_table is {seen(x)}: it must have 2 axes [B, max_blocks], not {x.dim()}")


def _single_mask(call: FlashAttnCall) -> Iterator[Fault]:
    if call.mask_mode not in set(MaskMode):
        yield Fault("mask_mode", f"mask_mode is {call.mask_mode}: it must be 0 (no mask), 3 (causal) or 4 (sliding "
                                 "window)")  # fmt: skip
    x = call.attn_mask
    if x is not None and (x.dtype != torch.int8 or list(x.shape) != [MASK_SIDE, MASK_SIDE]):
        yield Fault("attn_mask", f"attn_mask is {seen(x)}: it must be int8 [{MASK_SIDE}, {MASK_SIDE}] whatever the "
                                 f"lengths, 1 = hidden: {MASK_RECIPE}")  # fmt: skip
    for name in ("win_left", "win_right"):
        value = getattr(call, name)
        if value < -1:
            yield Fault(name, f"{name} is {value}: it must be -1 (unbounded) or more")


def _single_sinks(call: FlashAttnCall) -> Iterator[Fault]:
    x, heads = call.sinks, call.of_q("N")
    if x is not None and (x.dtype != torch.float32 or list(x.shape) != [heads]):
        yield Fault("sinks", f"sinks is {seen(x)}: it must be float32 [N1] = [{heads}], one logit per query head")


def _single_metadata(call: FlashAttnCall) -> Iterator[Fault]:
    yield from metadata_faults(call.metadata)


def metadata_faults(x: Tensor | None) -> Iterator[Fault]:
    """What can be said of metadata without reading it."""
    if x is None:
        yield Fault("metadata", "metadata is missing: call flash_attn_metadata first, with the same heads, dims, lengths, "
                                "layouts and mask, and pass what it returns")  # fmt: skip
    elif x.dtype != torch.int32 or x.dim() != 1 or x.numel() == 0:
        yield Fault("metadata", f"metadata is {seen(x)}: it must be int32 with 1 axis and not empty, as "
                                "flash_attn_metadata returns it")  # fmt: skip


def _single_lse(call: FlashAttnCall) -> Iterator[Fault]:
    if call.return_softmax_lse not in (0, 1):
        yield Fault("return_softmax_lse", f"return_softmax_lse is {call.return_softmax_lse}: it must be True or False")
    x = call.softmax_lse
    if call.return_softmax_lse and x is not None and x.dtype != torch.float32:
        yield Fault("softmax_lse", f"softmax_lse is {seen(x)}: it must be float32")


def _exist_lengths(call: FlashAttnCall) -> Iterator[Fault]:
    if call.paged and call.seqused_kv is None:
        yield Fault("seqused_kv", f"seqused_kv is missing: with layout_kv {call.layout_kv} it alone says how many keys "
                                  "each sequence has, int32 [B]")  # fmt: skip
    for name, layout in (("cu_seqlens_q", call.layout_q), ("cu_seqlens_kv", call.layout_kv)):
        x = getattr(call, name)
        if layout == "TND" and x is None:
            yield Fault(name, f"{name} is missing: layout TND needs it, int32 [B + 1], for example [0, 3, 8]")
        elif layout != "TND" and x is not None:
            yield Fault(name, f"{name} is given, {seen(x)}, but the layout is {layout}: only TND packs sequences. "
                              "Shorten sequences with seqused instead")  # fmt: skip


def _exist_pages(call: FlashAttnCall) -> Iterator[Fault]:
    if call.block_table is not None and not call.paged:
        yield Fault("block_table", f"block_table is given, {seen(call.block_table)}, but layout_kv is {call.layout_kv}: "
                                   f"only {', '.join(layouts.PAGED)} have blocks")  # fmt: skip


def _exist_mask(call: FlashAttnCall) -> Iterator[Fault]:
    yield from mask_presence_faults(call.mask_mode, call.attn_mask, call.win_left, call.win_right)


def mask_presence_faults(mask_mode: int, attn_mask: Tensor | None, win_left: int, win_right: int) -> Iterator[Fault]:
    """Which mask wants attn_mask and which lets the windows speak."""
    if mask_mode == MaskMode.NO_MASK and attn_mask is not None:
        yield Fault("attn_mask", "attn_mask is given, but mask_mode 0 hides nothing: leave it out, or ask for mask_mode 3 "
                                 "(causal) or 4 (sliding window)")  # fmt: skip
    if mask_mode in (MaskMode.CAUSAL, MaskMode.SLIDING_WINDOW) and attn_mask is None:
        yield Fault("attn_mask", f"attn_mask is missing: mask_mode {mask_mode} needs int8 [{MASK_SIDE}, {MASK_SIDE}], "
                                 f"1 = hidden: {MASK_RECIPE}")  # fmt: skip
    for name, value in (("win_left", win_left), ("win_right", win_right)):
        if mask_mode in (MaskMode.NO_MASK, MaskMode.CAUSAL) and value != -1:
            yield Fault(name, f"{name} is {value}: mask_mode {mask_mode} has no window, so it must be -1; windows belong "
                              "to mask_mode 4")  # fmt: skip


def _exist_lse(call: FlashAttnCall) -> Iterator[Fault]:
    if call.return_softmax_lse and call.attn_out is not None and call.softmax_lse is None:
        yield Fault("softmax_lse", "softmax_lse is missing: return_softmax_lse asks for it, and the caller allocates the "
                                   "outputs (attn_out is given)")  # fmt: skip


def _multi_common(call: FlashAttnCall) -> Iterator[Fault]:
    of_kv, of_out = layouts.TOGETHER.get(call.layout_q, ((), ()))
    if call.layout_q in layouts.PLAIN and (call.layout_kv not in of_kv or call.layout_out not in of_out):
        name = "layout_kv" if call.layout_kv not in of_kv else "layout_out"
        yield Fault(name, f"layout_q {call.layout_q}, layout_kv {call.layout_kv} and layout_out {call.layout_out} do not go "
                          f"together: layout_q {call.layout_q} takes layout_kv {', '.join(of_kv)} and layout_out "
                          f"{', '.join(of_out)}")  # fmt: skip
    tensors = {name: x for name in ("q", "k", "v", "attn_out") if (x := getattr(call, name)) is not None}
    for name, x in tensors.items():
        if x.dtype not in DTYPES:
            yield Fault(name, f"{name} is {seen(x)}: it must be float16 or bfloat16; cast with .half() or .bfloat16(), "
                              "and the result back")  # fmt: skip
    for name, x in tensors.items():
        if x.dtype != call.q.dtype:
            yield Fault(name, f"{name} is {seen(x)} and q is {seen(call.q)}: q, k, v and attn_out must have one dtype")
    yield from _sizes(call)
    if call.batch >= BATCH_LIMIT:
        yield Fault("q", f"q has a batch of {call.batch}: it must be less than {BATCH_LIMIT}")
    dim, dim_v = call.of_q("D"), layouts.size("D", call.layout_kv, call.v.shape)
    if (dim, dim_v) not in HEAD_DIMS:
        pairs = ", ".join(f"{d} and {dv}" for d, dv in HEAD_DIMS)
        yield Fault("q" if dim not in dict(HEAD_DIMS) else "v",
                    f"head dims: D = {dim} (q, k) and Dv = {dim_v} (v) are not among the supported pairs {pairs}. "
                    "Pad D with zeros and keep softmax_scale")  # fmt: skip
    x = call.attn_out
    if x is not None and call.layout_out in of_out and tuple(x.shape) != call.out_shape:
        yield Fault("attn_out", f"attn_out is {seen(x)}: layout_out {call.layout_out} makes it {list(call.out_shape)} "
                                f"({_shapes(call)})")  # fmt: skip


def _sizes(call: FlashAttnCall) -> Iterator[Fault]:
    """k against q, v against k; each size that must agree, by name."""
    wrong = []
    if "B" in layouts.AXES[call.layout_kv] and call.kv("B") != call.batch:
        wrong.append(f"B is {call.batch} in q and {call.kv('B')} in k")
    if call.kv("D") != call.of_q("D"):
        wrong.append(f"D is {call.of_q('D')} in q and {call.kv('D')} in k")
    if call.layout_kv == "PA_NZ" and call.k.shape[4] != 16:
        wrong.append(f"the last axis is {call.k.shape[4]}, not 16")
    if wrong:
        yield Fault("k", f"k does not fit q: {'; '.join(wrong)} ({_shapes(call)})")
    free = ("D", "D/16")
    wrong = [
        f"{axis} is {in_k} in k and {in_v} in v"
        for axis, in_k, in_v in zip(layouts.AXES[call.layout_kv], call.k.shape, call.v.shape, strict=True)
        if axis not in free and in_k != in_v
    ]
    if wrong:
        yield Fault("v", f"v does not fit k: {'; '.join(wrong)} ({_shapes(call)})")


def _shapes(call: FlashAttnCall) -> str:
    parts = [f"q {layouts.named(call.layout_q, call.q.shape)}", f"k {layouts.named(call.layout_kv, call.k.shape)}",
             f"v {layouts.named(call.layout_kv, call.v.shape)}"]  # fmt: skip
    if call.attn_out is not None:
        parts.append(f"attn_out {list(call.attn_out.shape)}")
    return ", ".join(parts)


def _multi_pages(call: FlashAttnCall) -> Iterator[Fault]:
    x = call.block_table
    if call.paged and x is not None and x.dim() == 2 and x.shape[0] != call.batch:
        yield Fault("block_table", f"block_table is {seen(x)}: it must have a row for each of the B = {call.batch} "
                                   "sequences")  # fmt: skip
    for name, pool in (("k", call.k), ("v", call.v)):
        if any(step == 0 and n > 1 for step, n in zip(pool.stride(), pool.shape)):
            yield Fault(name, f"{name} has strides {pool.stride()}: a stride of 0 (expand) is not taken; use "
                              ".contiguous()")  # fmt: skip
        elif not call.paged and not pool.is_contiguous():
            yield Fault(name, f"{name} is not contiguous, {list(pool.shape)} with strides {pool.stride()}: layout_kv "
                              f"{call.layout_kv} needs .contiguous() (q may be strided, k and v not)")  # fmt: skip
        elif call.paged and not _dense_from(pool, free := 1 if call.layout_kv == "PA_BBND" else 2):
            yield Fault(name, f"{name} is {list(pool.shape)} with strides {pool.stride()}: in layout_kv "
                              f"{call.layout_kv} only the first {free} of its axes may be strided")  # fmt: skip


def _dense_from(x: Tensor, axis: int) -> bool:
    """Whether x lies without gaps from this axis on."""
    expected = 1
    for n, step in reversed(list(zip(x.shape[axis:], x.stride()[axis:]))):
        if n > 1 and step != expected:
            return False
        expected *= n
    return True
