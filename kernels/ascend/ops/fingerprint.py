"""The metadata tensor: as long as the real one, its documented header, and a fingerprint of the arguments it is for.

On hardware it holds the split of the work over the cores, and calling with other arguments than the metadata's is
undefined behaviour. Here no core is scheduled: where the split would be, the arguments are kept, and a call is compared
with them.

int32 words: 0 sections, 1 whether keys are split over cores, 2 rows and 3 keys of a tile, 4 cube cores, 5 vector cores,
6 output layout, 7 where the backward part begins (0: there is none); 8 the mark; from 16 the fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments.faults import Fault
from kernels.ascend.ops.calls import LENGTHS, CompleteMetadataCall, FlashAttnCall, FlashAttnGradCall
from kernels.ascend.tiling import DEFAULT

HEADER, PER_CORE, BACKWARD_PART, PAGE = 16, 16, 412, 4096  # words
MARK_AT, MARK = 8, 0x4F4A4446
LAYOUTS = tuple(layouts.AXES)
OUTPUT_LAYOUT = {"BSND": 1, "BNSD": 3, "TND": 4}  # flash_attn_metadata.h
WORD_LIMIT = 2**31 - 1


class Fingerprint(NamedTuple):
    """The arguments as integers, in the order in which they lie in the tensor. -1: not given."""

    num_heads_q: int
    num_heads_kv: int
    head_dim: int
    head_dim_v: int
    batch_size: int
    max_seqlen_q: int
    max_seqlen_kv: int
    mask_mode: int
    win_left: int
    win_right: int
    layout_q: int
    layout_kv: int
    layout_out: int
    is_grad_enabled: int
    cu_seqlens_q: int
    cu_seqlens_kv: int
    seqused_q: int
    seqused_kv: int


def build(call: CompleteMetadataCall) -> Tensor:
    """The metadata tensor on the CPU, for a call that passed its checks."""
    cube, vector = platform.cores()
    metadata = torch.zeros(length_of(call), dtype=torch.int32)
    backward_part = HEADER + PER_CORE * (cube + vector) * call.sequences * call.num_heads_kv
    header = (1, 0, *DEFAULT, cube, vector, OUTPUT_LAYOUT[call.layout_out], backward_part * call.is_grad_enabled)
    metadata[: len(header)] = torch.tensor(header, dtype=torch.int32)
    metadata[MARK_AT] = MARK
    longest, windows = (call.max_seqlen_q, call.max_seqlen_kv), (call.win_left, call.win_right)
    fingerprint = Fingerprint(
        call.num_heads_q, call.num_heads_kv, call.head_dim, call.head_dim_v, call.sequences, *longest, call.mask_mode,
        *windows, *_layouts_of(call), int(call.is_grad_enabled), *_lengths_of(call),
    )  # fmt: skip
    words = [min(value, WORD_LIMIT) for value in fingerprint]
    metadata[HEADER : HEADER + len(words)] = torch.tensor(words, dtype=torch.int32)
    return metadata


def length_of(call: CompleteMetadataCall) -> int:
    """Words of the tensor: room for every sequence and head on every core, in pages of 4096."""
    words = HEADER + PER_CORE * sum(platform.cores()) * call.sequences * call.num_heads_kv + BACKWARD_PART
    return -(-words // PAGE) * PAGE


def fingerprint_faults(call: FlashAttnCall | FlashAttnGradCall) -> Iterator[Fault]:
    """Where the arguments of a call differ from those that its metadata was made from. Tensors are on the CPU."""
    metadata = call.metadata
    size = len(Fingerprint._fields)
    if metadata is None or metadata.numel() < HEADER + size or metadata[MARK_AT] != MARK:
        yield Fault(
            "metadata",
            "metadata carries no fingerprint of the arguments it is for, so flash_attn_metadata did not make it "
            "(undefined behaviour on hardware). Pass what flash_attn_metadata returns",
        )
        return
    made = Fingerprint(*metadata[HEADER : HEADER + size].tolist())
    for name, then, now in zip(Fingerprint._fields, made, _of_call(call, made)):
        if then != min(now, WORD_LIMIT):
            difference = _difference(name, then, now)
            text = f"metadata was made for other arguments: {name} is {difference}. Pass the same to both"
            yield Fault(f"metadata {name}", text)


def _of_call(call: FlashAttnCall | FlashAttnGradCall, made: Fingerprint) -> Fingerprint:
    """What the fingerprint must be for this call. A longest length that one side leaves out is taken from the other."""
    longest = {}
    for side, layout, size in (("q", call.layout_q, call.of_q), ("kv", call.layout_kv, call.of_kv)):
        then, now = getattr(made, f"max_seqlen_{side}"), getattr(call, f"max_seqlen_{side}")
        if layout in ("BNSD", "BSND") and getattr(call, f"seqused_{side}") is None:
            longest[side] = size("S") if now in (-1, then) else now
        else:
            longest[side] = then if -1 in (then, now) else now
    return Fingerprint(
        call.of_q("N"), call.of_kv("N"), call.of_q("D"), layouts.size("D", call.layout_kv, call.v.shape), call.batch,
        longest["q"], longest["kv"], int(call.mask_mode), call.win_left, call.win_right, *_layouts_of(call),
        1 if isinstance(call, FlashAttnGradCall) else made.is_grad_enabled, *_lengths_of(call),
    )  # fmt: skip


def _layouts_of(call: CompleteMetadataCall | FlashAttnCall | FlashAttnGradCall) -> tuple[int, int, int]:
    return LAYOUTS.index(call.layout_q), LAYOUTS.index(call.layout_kv), LAYOUTS.index(call.layout_out)


def _lengths_of(call: CompleteMetadataCall | FlashAttnCall | FlashAttnGradCall) -> tuple[int, int, int, int]:
    cu_q, cu_kv, used_q, used_kv = (_digest(getattr(call, name)) for name in LENGTHS)
    return cu_q, cu_kv, used_q, used_kv


def _digest(lengths: Tensor | None) -> int:
    """31 bits of the values; -1 when there are none."""
    if lengths is None:
        return -1
    return int.from_bytes(hashlib.blake2b(str(lengths.tolist()).encode(), digest_size=4).digest()) >> 1


def _difference(name: str, then: int, now: int) -> str:
    if name in LENGTHS:
        if -1 in (then, now):
            return "given there and not here" if now == -1 else "given here and not there"
        return "given in both, but with other values"
    if name == "is_grad_enabled":
        return "False there, and a gradient needs True"
    if name.startswith("layout"):
        return f"{LAYOUTS[then]} there and {LAYOUTS[now]} here"
    return f"{then} there and {now} here"
