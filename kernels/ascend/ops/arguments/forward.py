"""What flash_attn refuses, phase by phase and checker by checker in the order of its host code.

Sources: flash_attn, op_host/flash_attn_tiling_info_parser.cpp and op_host/checkers/*.cpp. That a tensor's format is ND
is checked there, too: PyTorch tensors have no other here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import fields

from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments import forward_alone, forward_together
from kernels.ascend.ops.arguments.faults import Fault, one_device, seen
from kernels.ascend.ops.calls import FlashAttnCall


def flash_attn_faults(call: FlashAttnCall) -> Iterator[Fault]:
    """Every fault of the call but those of metadata's content, in the order in which the operator looks."""
    readable = yield from _parser(call)
    if not readable:
        return  # what the axes mean is not known
    yield from _empty_tensors(call)
    wrong_layouts = list(forward_alone.layout_faults(call))
    yield from wrong_layouts
    if wrong_layouts:
        return
    yield from forward_alone.faults_alone(call)
    yield from forward_together.faults_together(call)


def _parser(call: FlashAttnCall) -> Generator[Fault, None, bool]:
    """Reads sizes off the shapes; says whether that worked."""
    missing = [name for name in ("q", "k", "v") if getattr(call, name) is None]
    for name in missing:
        yield Fault(name, f"{name} is missing: q, k and v must be tensors")
    if missing:
        return False
    given = {f.name: getattr(call, f.name) for f in fields(call)}
    yield from one_device({name: x for name, x in given.items() if isinstance(x, Tensor)})
    yield from platform.platform_faults()
    readable = yield from _shapes_readable(call)
    if not readable:
        return False
    heads_q, heads_kv = call.of_q("N"), call.of_kv("N")
    if heads_kv == 0:
        yield Fault("k", f"k has no head: {layouts.named(call.layout_kv, call.k.shape)}; N2 must not be 0")
    elif heads_q % heads_kv:
        yield Fault(
            "q",
            f"q has N1 = {heads_q} heads and k has N2 = {heads_kv}: N1 must be a multiple of N2 ({call.shapes()})",
        )
    if call.layout_q == "TND" and call.cu_seqlens_q is None:
        yield Fault(
            "cu_seqlens_q",
            "cu_seqlens_q is missing: with layout_q TND it says where each sequence of q begins and ends, int32 "
            "[B + 1], for example [0, 3, 8]",
        )
        readable = False
    elif call.layout_q == "TND" and call.cu_seqlens_q is not None and call.cu_seqlens_q.numel() <= 1:
        yield Fault(
            "cu_seqlens_q",
            f"cu_seqlens_q is {seen(call.cu_seqlens_q)}: with layout_q TND it needs B + 1 values, two or more",
        )
        readable = False
    if call.paged and call.block_table is None:
        yield Fault(
            "block_table",
            f"block_table is missing: layout_kv {call.layout_kv} keeps keys and values in blocks, and int32 "
            "[B, max_blocks] says which block holds what",
        )
    return readable


def _shapes_readable(call: FlashAttnCall) -> Generator[Fault, None, bool]:
    unknown = {name: layout for name in ("layout_q", "layout_kv", "layout_out")
               if (layout := getattr(call, name)) not in layouts.AXES}  # fmt: skip
    for name, layout in unknown.items():
        of = {"layout_q": f" of q {list(call.q.shape)}", "layout_kv": f" of k {list(call.k.shape)} and v"}.get(name, "")
        yield Fault(name, f"{name}{of} is {layout!r}: it must be one of {', '.join(layouts.AXES)}")
    if unknown:
        return False
    readable = True
    for name, x, layout in (("q", call.q, call.layout_q), ("k", call.k, call.layout_kv), ("v", call.v, call.layout_kv)):
        axes = layouts.AXES[layout]
        if x.dim() != len(axes):
            yield Fault(name, f"{name} is {seen(x)}: layout {layout} has {len(axes)} axes ({', '.join(axes)})")
            readable = False
    return readable


def _empty_tensors(call: FlashAttnCall) -> Iterator[Fault]:
    for name in ("q", "k", "v", "attn_out"):
        x = getattr(call, name)
        if x is not None and 0 in x.shape:
            yield Fault(
                name,
                f"{name} is an empty tensor, {list(x.shape)}: no axis may be 0. A sequence of length 0 is given "
                "through cu_seqlens or seqused",
            )
