"""What is checked in the values of cu_seqlens_* and seqused_*, which only a kernel can read."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernels.ascend.ops import layouts
from kernels.ascend.ops.arguments_metadata import LENGTHS
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall
from kernels.ascend.ops.faults import Fault, seen


def faults(call: FlashAttnMetadataCall) -> Iterator[Fault]:
    """As flash_attn_metadata's AICPU kernel does: no negative length, cu_seqlens from 0 and never falling."""
    for name in LENGTHS:
        x = getattr(call, name)
        if x is None or x.numel() == 0:
            continue
        if x.dtype != torch.int32:
            yield Fault(name, f"{name} is {seen(x)}: it must be int32; use .to(torch.int32)")
            continue
        values = x.flatten().tolist()
        if name.startswith("seqused"):
            for b, value in enumerate(values):
                if value < 0:
                    yield Fault(name, f"{name}[{b}] is {value}: a length must not be negative")
        elif values[0] != 0:
            yield Fault(name, f"{name}[0] is {values[0]}: the first sequence begins at 0")
        else:
            for b, (start, stop) in enumerate(zip(values, values[1:]), 1):
                if stop < start:
                    yield Fault(name, f"{name} falls from {start} to {stop} at [{b}]: it must not fall; a sequence of "
                                      "length 0 repeats the value")  # fmt: skip


def faults_beyond(call: FlashAttnCall | FlashAttnGradCall) -> Iterator[Fault]:
    """Lengths that reach past the tensor: undefined behaviour on hardware, so nothing there says so."""
    for side, size in (("q", call.of_q), ("kv", call.kv)):
        cu_seqlens, seqused = getattr(call, f"cu_seqlens_{side}"), getattr(call, f"seqused_{side}")
        layout = getattr(call, f"layout_{side}")
        if cu_seqlens is not None and cu_seqlens[-1] != size("T"):
            yield Fault(f"cu_seqlens_{side}", f"cu_seqlens_{side} ends at {cu_seqlens[-1].item()}, but the tensor has T = "
                                              f"{size('T')} tokens")  # fmt: skip
        if seqused is None or layout in layouts.PAGED:
            continue
        room = cu_seqlens.diff().tolist() if cu_seqlens is not None else [size("S")] * call.batch
        for b, (used, most) in enumerate(zip(seqused.tolist(), room)):
            if not 0 <= used <= most:
                yield Fault(f"seqused_{side}", f"seqused_{side}[{b}] is {used}, but sequence {b} has {most} tokens")
