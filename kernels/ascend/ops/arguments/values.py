"""What is checked in the values of lengths and of attn_mask, which only a kernel can read. Tensors are on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from kernels.ascend.mask_templates import causal_template
from kernels.ascend.ops import layouts
from kernels.ascend.ops.arguments.faults import Fault, seen
from kernels.ascend.ops.arguments.forward_alone import MASK_RULE
from kernels.ascend.ops.calls import LENGTHS, CompleteMetadataCall, FlashAttnCall, FlashAttnGradCall


def value_faults(call: CompleteMetadataCall) -> Iterator[Fault]:
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
            for b, (start, stop) in enumerate(pairwise(values), 1):
                if stop < start:
                    text = (
                        f"{name} falls from {start} to {stop} at [{b}]: it must not fall; a length of 0 repeats a value"
                    )
                    yield Fault(name, text)


def faults_beyond(call: FlashAttnCall | FlashAttnGradCall) -> Iterator[Fault]:
    """Lengths that reach past the tensors: undefined behaviour on hardware, where nothing says so."""
    for side, size in (("q", call.of_q), ("kv", call.of_kv)):
        cu_name, used_name, layout = f"cu_seqlens_{side}", f"seqused_{side}", getattr(call, f"layout_{side}")
        cu_seqlens, seqused = getattr(call, cu_name), getattr(call, used_name)
        if cu_seqlens is not None and cu_seqlens[-1] != size("T"):
            yield Fault(
                cu_name, f"{cu_name} ends at {cu_seqlens[-1].item()}: it must end at T = {size('T')} of the tensor"
            )
        if seqused is None or layout in layouts.PAGED:
            continue
        room = cu_seqlens.diff().tolist() if cu_seqlens is not None else [size("S")] * call.batch
        for b, (used, most) in enumerate(zip(seqused.tolist(), room)):
            if not 0 <= used <= most:
                yield Fault(used_name, f"{used_name}[{b}] is {used}: sequence {b} of the tensor has {most} tokens")


def mask_faults(call: FlashAttnCall | FlashAttnGradCall) -> Iterator[Fault]:
    """The hardware takes its tiles from attn_mask, whatever it holds; other content gives other results, silently."""
    x = call.attn_mask
    if x is None:
        return
    template = causal_template(torch.int8, torch.device("cpu"))
    if not torch.equal(x.contiguous().view(torch.int64), template.view(torch.int64)):  # eight at a time
        yield Fault("attn_mask", f"attn_mask holds other values than the template of every mask: {MASK_RULE}")
