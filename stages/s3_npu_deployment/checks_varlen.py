"""Checks of s3-varlen: packed sequences by one call of the operator in layout TND. ``values`` gates the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, HEADS
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right
from grader.checking.packed import Make, Packed
from grader.checking.packed import packing as packed_cases
from grader.checking.wrong_attention import Changes, simulate
from grader.vocabulary import Context, check, say

from .npu_calls import FLASH_ATTN, refusals_named, require_operator, require_results
from .npu_mistakes import SCALE

NPU_VARLEN = "npu_flash_attention_varlen"
PACKED_NAMES = ("attn_out", "softmax_lse")
NPU_VARLEN_VALUES = "s3-varlen.values"


def call_packed(ctx: Context, case: Packed) -> Any:
    options: dict[str, Any] = {"scale": scale_of(case)}
    if case.mask_mode:
        options["mask_mode"] = case.mask_mode
    with refusals_named():
        outcome = ctx.subject.call(NPU_VARLEN, case.q, case.k, case.v, *case.cu_seqlens, observe=True, **options)
    require_operator(ctx, outcome, FLASH_ATTN)
    calls = outcome.trace.operators.get(FLASH_ATTN, 0) if outcome.trace else 1
    if calls > 1:
        ctx.fail(
            say(
                "{n} 条序列调用了 {calls} 次算子；TND 布局一次就能算完。",
                "{n} sequences took {calls} calls of the operator; in layout TND one computes them all.",
                n=len(case.lengths_q),
                calls=calls,
            ),
            misconception="varlen-many-calls",
            evidence={"got": calls, "expected": 1},
        )
    if all_right(outcome.value, {"attn_out": case.expected["attn_out"]}, PACKED_NAMES):
        lse = all_right(outcome.value, {"softmax_lse": case.expected["softmax_lse"]}, PACKED_NAMES)
        require_results(ctx, outcome, FLASH_ATTN, FLASH_ATTN if lse else "")
    return outcome.value


def scale_of(case: Packed) -> float:
    return case.parts()[0].factor


def packing(*lengths: tuple[int, ...], **fields: Any) -> Make:
    """As :func:`grader.checking.packed.packing`, in what the operator takes: D 64, float16, no tiles."""
    return packed_cases(*lengths, **{"dim": 64, "dtype": torch.float16, "block": 0, **fields})


def packed_shapes(case: Packed) -> dict[str, dict[tuple[int, ...], str]]:
    t, n = case.q.shape[:2]
    lse = {(t, n): "varlen-lse-layout", (0,): "lse-not-requested", (1,): "lse-not-requested"}
    return {"softmax_lse": lse, "attn_out": {(n, t, case.v.shape[-1]): "varlen-output-layout"}}


def packed(
    make: Make, otherwise: str | None = None, control: Any = None, names: tuple[str, ...] = ("attn_out",)
) -> Any:
    return Examination(
        call=call_packed,
        make=make,
        expect=lambda case: {name: case.expected[name] for name in names},
        suspects=packed_suspects,
        otherwise=otherwise,
        control=control,
        names=PACKED_NAMES,
        shapes=packed_shapes,
    )


def packed_right(ctx: Context, case: Packed) -> bool:
    return all_right(call_packed(ctx, case), {"attn_out": case.expected["attn_out"]}, PACKED_NAMES)


def ordinary(ctx: Context, case: Packed) -> bool:
    """Control: sequences with keys, as many as queries, no mask."""
    return packed_right(ctx, packing((9, 16, 5))(ctx.rng("control"), 0))


@cache
def packed_suspects() -> list[Suspect]:
    def each(changes: Changes) -> Callable[[Packed], dict[str, Tensor]]:
        def values(case: Packed) -> dict[str, Tensor]:
            out, at = torch.zeros_like(case.expected["attn_out"].value), 0
            for part, length in zip(case.parts(), case.lengths_q, strict=True):
                if length and part.k.shape[2]:
                    out[at : at + length] = simulate(part, changes)["attn_out"][0].transpose(0, 1)
                at += length
            return {"attn_out": out}

        return values

    def whole(case: Packed) -> dict[str, Tensor]:
        part = case.parts([0, case.q.shape[0]], [0, case.k.shape[0]])[0]
        return {"attn_out": simulate(part, {})["attn_out"][0].transpose(0, 1)}

    inner = [Suspect(id, each(changes), loose=loose) for id, changes, loose in [*SCALE, *HEADS, *CAUSAL]]
    return [*inner, Suspect("varlen-sequences-mixed", whole)]


@check(NPU_VARLEN_VALUES, points=2.5, concept="varlen")
def npu_varlen_values(ctx: Context) -> None:
    """Three sequences of different lengths which must not see one another; two heads share a kv head."""
    packed(packing((17, 9, 32), (5, 26, 16, 11), heads=4, kv_heads=2)).run(ctx)


NPU_VARLEN_NEEDS = (NPU_VARLEN_VALUES,)


@check("s3-varlen.lse", points=1, concept="lse", needs=NPU_VARLEN_NEEDS)
def npu_varlen_lse(ctx: Context) -> None:
    """softmax_lse is [N1, T1] float32."""
    packed(packing((17, 9, 20)), "lse-value", packed_right, names=("softmax_lse",)).run(ctx)


@check("s3-varlen.scale", points=0.5, concept="scale", needs=NPU_VARLEN_NEEDS)
def npu_varlen_scale(ctx: Context) -> None:
    packed(packing((17, 9), (20, 3, 8), scale=0.31), "scale-ignored", ordinary).run(ctx)


@check("s3-varlen.borders", points=1, concept="varlen", needs=NPU_VARLEN_NEEDS)
def npu_varlen_borders(ctx: Context) -> None:
    """Sequences with other numbers of queries than of keys."""
    packed(packing((9, 14), (20, 3, 8), kv=((21, 6), (7, 19, 8))), "varlen-borders", ordinary).run(ctx)


@check("s3-varlen.empty", points=1.5, concept="varlen", needs=(*NPU_VARLEN_NEEDS, "s3-varlen.lse", "s3-varlen.borders"))
def npu_varlen_empty(ctx: Context) -> None:
    """Sequences without queries, without keys, or without both: rows without keys give 0 and +inf."""
    for make in (packing((12, 0, 9, 0)), packing((8, 7, 0, 5), kv=((10, 0, 6, 9),))):
        packed(make, "varlen-empty-sequence", ordinary, names=PACKED_NAMES).run(ctx)


@check("s3-varlen.causal", points=1.5, concept="causal", needs=(*NPU_VARLEN_NEEDS, "s3-varlen.borders"))
def npu_varlen_causal(ctx: Context) -> None:
    """mask_mode 3 within each sequence, S1 = S2 and not."""

    def unmasked(ctx: Context, case: Packed) -> bool:
        return packed_right(ctx, Packed(case.q, case.k, case.v, case.lengths_q, case.lengths_kv, block=0))

    packed(packing((17, 9, 32), (5, 26, 16), mask_mode=3), "causal-mask", unmasked).run(ctx)
    make = packing((7, 9, 20), (5, 16, 3), kv=((12, 9, 33), (5, 26, 16)), mask_mode=3)
    packed(make, "causal-alignment", unmasked).run(ctx)
