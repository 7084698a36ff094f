"""The metadata tensor: as long as the real one, its documented header, and a fingerprint of the arguments it was made from.

On hardware it holds the split of the work over the cores, and a call with other arguments than the metadata's is undefined
behaviour. Here no core is scheduled: where the split would be, the arguments are kept, and a call is compared with them.
Words, int32: 0-7 documented header (sections, split-KV flag, m tile, s2 tile, cube cores, vector cores, output layout, where
the backward part begins), 8 a mark, 16 and on the fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.ascend.ops import layouts, platform
from kernels.ascend.ops.arguments_metadata import LENGTHS, batch_of
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall
from kernels.ascend.ops.faults import Fault

HEADER, PER_CORE, BACKWARD_PART, PAGE = 16, 16, 412, 4096
TILE = 128
MARK_AT, MARK = 8, 0x4F4A4446
LAYOUT_CODE = {name: code for code, name in enumerate(("", *layouts.AXES))}
LAYOUT_NAME = {code: name for name, code in LAYOUT_CODE.items()}
OUTPUT_LAYOUT_CODE = {"BSND": 1, "BNSD": 3, "TND": 4}  # flash_attn_metadata.h


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


def build(call: FlashAttnMetadataCall) -> Tensor:
    """The metadata tensor on the CPU, for a call that passed its checks."""
    cube, vector = platform.cores()
    batch = batch_of(call)
    metadata = torch.zeros(length_of(batch, call.num_heads_kv), dtype=torch.int32)
    backward_part = HEADER + PER_CORE * (cube + vector) * batch * call.num_heads_kv if call.is_grad_enabled else 0
    header = (1, 0, TILE, TILE, cube, vector, OUTPUT_LAYOUT_CODE[call.layout_out], backward_part)
    metadata[: len(header)] = torch.tensor(header, dtype=torch.int32)
    metadata[MARK_AT] = MARK
    fingerprint = Fingerprint(
        call.num_heads_q, call.num_heads_kv, call.head_dim, call.head_dim_v, batch, call.max_seqlen_q, call.max_seqlen_kv,
        call.mask_mode, call.win_left, call.win_right, *(LAYOUT_CODE[x] for x in (call.layout_q, call.layout_kv,
        call.layout_out)), int(call.is_grad_enabled), *(_digest(getattr(call, name)) for name in LENGTHS),
    )  # fmt: skip
    metadata[HEADER : HEADER + len(fingerprint)] = torch.tensor(fingerprint, dtype=torch.int32)
    return metadata


def length_of(batch: int, heads_kv: int) -> int:
    """Words of the tensor: room for every (sequence, head) on every core, in pages of 4096."""
    words = HEADER + PER_CORE * sum(platform.cores()) * batch * heads_kv + BACKWARD_PART
    return -(-words // PAGE) * PAGE


def content_faults(call: FlashAttnCall | FlashAttnGradCall, metadata: Tensor) -> Iterator[Fault]:
    """Where the call's arguments differ from those that metadata was made from; metadata on the CPU."""
    if metadata.numel() < HEADER + len(Fingerprint._fields) or metadata[MARK_AT] != MARK:
        yield Fault("metadata", "metadata does not come from flash_attn_metadata: it carries no fingerprint of its arguments "
                                "(undefined behaviour on hardware). Make it with flash_attn_metadata")
        return  # fmt: skip
    words = metadata[HEADER : HEADER + len(Fingerprint._fields)].tolist()
    made = Fingerprint(*words)
    now = _of_call(call, made)
    for name, then, called in zip(Fingerprint._fields, made, now):
        if then == called:
            continue
        if name.startswith("layout"):
            values = f"{LAYOUT_NAME.get(then)} in flash_attn_metadata and {LAYOUT_NAME[called]} here"
        elif name in LENGTHS:
            values = _difference(then, called)
        elif name == "is_grad_enabled":
            values = "False in flash_attn_metadata, and a gradient needs True"
        else:
            values = f"{then} in flash_attn_metadata and {called} here"
        yield Fault(f"metadata {name}", f"metadata was made from other arguments: {name} is {values}. Pass the same to both")


def _of_call(call: FlashAttnCall | FlashAttnGradCall, made: Fingerprint) -> Fingerprint:
    """What the fingerprint should be for this call. Lengths that one side left out are taken from the other."""
    backward = isinstance(call, FlashAttnGradCall)
    longest = {}
    for name, side, lengths in (("q", call.of_q, call.seqused_q), ("kv", call.kv, call.seqused_kv)):
        then, called = getattr(made, f"max_seqlen_{name}"), getattr(call, f"max_seqlen_{name}")
        layout = getattr(call, f"layout_{name}")
        if lengths is None and layout in ("BNSD", "BSND"):
            longest[name] = called if called not in (-1, then) else side("S")
        else:
            longest[name] = then if -1 in (then, called) else called
    return Fingerprint(
        call.of_q("N"), call.kv("N"), call.of_q("D"), layouts.size("D", call.layout_kv, call.v.shape), call.batch,
        longest["q"], longest["kv"], int(call.mask_mode), call.win_left, call.win_right,
        *(LAYOUT_CODE[x] for x in (call.layout_q, call.layout_kv, call.layout_out)),
        1 if backward else made.is_grad_enabled, *(_digest(getattr(call, name)) for name in LENGTHS),
    )  # fmt: skip


def _digest(lengths: Tensor | None) -> int:
    """31 bits of a tensor's values; -1 when there is none."""
    if lengths is None:
        return -1
    values = ",".join(map(str, lengths.tolist()))
    return int.from_bytes(hashlib.blake2b(values.encode(), digest_size=4).digest()) >> 1


def _difference(then: int, called: int) -> str:
    if then == -1:
        return "given here and not in flash_attn_metadata"
    if called == -1:
        return "given in flash_attn_metadata and not here"
    return "different: its values are not those that flash_attn_metadata was given"
