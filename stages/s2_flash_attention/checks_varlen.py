"""Checks of s2-varlen: packed sequences that must not see one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from grader.checking.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.checking.examine import Examination, all_right
from grader.checking.memory import Size, require_linear
from grader.checking.packed import Packed, pack, packing
from grader.subject import Outcome
from grader.vocabulary import Context, check

from .varlen_mistakes import varlen_suspects

VARLEN = "flash_attention_varlen"
VARLEN_NAMES = ("attn_out", "softmax_lse")
VARLEN_VALUES, VARLEN_MEMORY = "s2-varlen.values", "s2-varlen.memory"


def call_varlen(ctx: Context, case: Packed) -> Any:
    return ctx.subject.call(VARLEN, case.q, case.k, case.v, *case.cu_seqlens, **case.options()).value


def varlen_shapes(case: Packed) -> dict[str, dict[tuple[int, ...], str]]:
    t, n = case.q.shape[:2]
    return {
        "softmax_lse": {(t, n): "varlen-lse-layout"},
        "attn_out": {(n, t, case.v.shape[-1]): "varlen-output-layout"},
    }


def varlen(
    make: Any,
    otherwise: str | None = None,
    control: Callable[[Context, Packed], bool] | None = None,
    both: bool = False,
) -> Examination:
    """attn_out alone, so that wrong ideas can be named; ``both`` looks at softmax_lse as well."""
    return Examination(
        call=call_varlen,
        make=make,
        expect=lambda case: case.expected if both else {"attn_out": case.expected["attn_out"]},
        suspects=varlen_suspects,
        otherwise=otherwise,
        control=control,
        names=VARLEN_NAMES,
        shapes=varlen_shapes,
    )


def varlen_right(ctx: Context, case: Packed) -> bool:
    return all_right(call_varlen(ctx, case), {"attn_out": case.expected["attn_out"]}, VARLEN_NAMES)


def ordinary(ctx: Context, case: Packed) -> bool:
    """Control: sequences with keys, one kv head per query head, no mask."""
    return varlen_right(ctx, pack(ctx.rng("control"), (9, 16, 5)))


@check(VARLEN_VALUES, points=0, concept="varlen")
def varlen_values(ctx: Context) -> None:
    """Three sequences of different lengths which must not see one another. Worth nothing without O(N) memory."""
    varlen(packing((17, 9, 32), (5, 26, 16, 11))).run(ctx)


@check(VARLEN_MEMORY, points=1.5, concept="linear-memory", needs=(VARLEN_VALUES,))
def varlen_memory(ctx: Context) -> None:
    """A long sequence among short ones; an N x N matrix of it takes many MB."""
    require_linear(ctx, run_long)


def run_long(ctx: Context, size: Size) -> Outcome:
    case = pack(ctx.rng(size.length), (40, size.length, 24), heads=1, dim=8, block=size.block)
    inputs = (case.q, case.k, case.v, *case.cu_seqlens)
    outcome = ctx.subject.call(VARLEN, *inputs, memory=True, observe=True, **case.options())
    out, _ = require_tensors(ctx, outcome.value, VARLEN_NAMES)
    require_like(ctx, out, Expected("attn_out", case.q, 0.0, case.q.dtype), case=case.describe())
    rows = torch.from_numpy(np.sort(ctx.rng("rows").choice(size.length, 16, replace=False)))
    part = case.parts()[1]
    some = part.but(q=part.q[:, :, rows], block_q=0).expected
    got = out[40 + rows].transpose(0, 1)[None]
    if not right(got, some):
        ctx.fail(describe(got, some), evidence=evidence_of(got, some, case.describe()))
    return outcome


VARLEN_NEEDS = (VARLEN_VALUES, VARLEN_MEMORY)


@check("s2-varlen.lse", points=0.5, concept="lse", needs=VARLEN_NEEDS)
def varlen_lse(ctx: Context) -> None:
    """softmax_lse is [N1, T1] float32."""
    varlen(packing((17, 9, 20)), "lse-value", varlen_right, both=True).run(ctx)


@check("s2-varlen.borders", points=0.5, concept="varlen", needs=VARLEN_NEEDS)
def varlen_borders(ctx: Context) -> None:
    """Sequences with other numbers of queries than of keys; and a given scale."""
    make = packing((9, 14), (20, 3, 8), kv=((21, 6), (7, 19, 8)))
    varlen(make, "varlen-borders", ordinary).run(ctx)
    varlen(packing((9, 14), (20, 3), scale=0.3), "scale-ignored", ordinary).run(ctx)


@check("s2-varlen.empty", points=0.75, concept="varlen", needs=(*VARLEN_NEEDS, "s2-varlen.lse", "s2-varlen.borders"))
def varlen_empty(ctx: Context) -> None:
    """Sequences without queries, without keys, or without both: the rows without keys give 0 and +inf."""
    for make in (packing((12, 0, 9, 0)), packing((8, 7, 0, 5), kv=((10, 0, 6, 9),))):
        varlen(make, "varlen-empty-sequence", ordinary, both=True).run(ctx)


@check("s2-varlen.causal", points=1, concept="causal", needs=(*VARLEN_NEEDS, "s2-varlen.borders"))
def varlen_causal(ctx: Context) -> None:
    """mask_mode 3 within each sequence; then with S1 != S2, aligned bottom-right in each."""

    def unmasked(ctx: Context, case: Packed) -> bool:
        return varlen_right(ctx, Packed(case.q, case.k, case.v, case.lengths_q, case.lengths_kv, block=case.block))

    varlen(packing((17, 9, 32), (5, 26, 16), mask_mode=3), "causal-mask", unmasked).run(ctx)
    make = packing((7, 9, 20), (5, 16, 3), kv=((12, 9, 33), (5, 26, 16)), mask_mode=3)
    varlen(make, "causal-alignment", unmasked).run(ctx)


@check("s2-varlen.gqa", points=0.75, concept="gqa", needs=VARLEN_NEEDS)
def varlen_gqa(ctx: Context) -> None:
    varlen(packing((9, 14), (5, 8, 3), heads=6, kv_heads=3), "gqa-mapping", ordinary).run(ctx)
