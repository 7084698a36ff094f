"""Checks of s3-forward: the operator flash_attn called as it wants to be. ``values`` gates the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL
from grader.checking.cases import Attention, Shape
from grader.checking.examine import only, repeatable, unchanged
from grader.checking.hardware import forward_like_kernel
from grader.checking.wrong_attention import suspects
from grader.vocabulary import Context, check

from . import npu_cases as cases
from .npu_calls import FLASH_ATTN, LOST, Calls, require_npu, run, without_mask
from .npu_cases import NpuCase, npu_draw, to_layout
from .npu_mistakes import SCALE, WINDOW, laid_out

NPU_FORWARD = "npu_flash_attention"
FORWARD = Calls(NPU_FORWARD, FLASH_ATTN)
VALUES = "s3-forward.values"


@check(VALUES, points=6, concept="operator-call")
def npu_forward_values(ctx: Context) -> None:
    """The seeds' shape: B 2, S 128, N1 8, N2 2, D 128, float16, BSND; no mask, scale 1/sqrt(D) passed explicitly."""
    catch = only(laid_out(suspects(SCALE)), "scale-default-forward")
    FORWARD.out(cases.seeds, catch=lambda: catch).run(ctx)
    case = npu_draw(ctx.rng("device"), cases.SMALL)
    require_npu(ctx, run(ctx, NPU_FORWARD, case))


def needs(*others: str) -> tuple[str, ...]:
    return (VALUES, *(f"s3-forward.{name}" for name in others))


@check("s3-forward.scale", points=2, concept="scale", needs=needs())
def npu_forward_scale(ctx: Context) -> None:
    """A scale other than 1/sqrt(D)."""
    catch = only(laid_out(suspects(SCALE)), "scale-default-forward", "scale-ignored")
    FORWARD.out(cases.other_scale, catch=lambda: catch, known=(cases.seeds,)).run(ctx)


@check("s3-forward.lse", points=2, concept="lse", needs=needs())
def npu_forward_lse(ctx: Context) -> None:
    """softmax_lse is returned, float32 [B, N1, S1] for BSND as well."""
    FORWARD.lse(cases.seeds, tuple, "lse-value").run(ctx)


@check("s3-forward.layout", points=2.5, concept="layouts", needs=needs())
def npu_forward_layout(ctx: Context) -> None:
    """BNSD in, BNSD out; the lse keeps its shape."""

    def in_bsnd(case: NpuCase) -> NpuCase:
        return case.but(layout="BSND")

    FORWARD.out(cases.other_layout, "layout-ignored", FORWARD.right_after(in_bsnd)).run(ctx)
    FORWARD.lse(cases.other_layout, tuple, "lse-value").run(ctx)


@check("s3-forward.causal", points=3, concept="causal", needs=needs())
def npu_forward_causal(ctx: Context) -> None:
    """mask_mode 3 needs the mask tensor; S1 = S2, S1 < S2, and rows that see no key."""
    control = FORWARD.right_after(without_mask)
    catch = only(laid_out(suspects(CAUSAL)), "causal-ignored", "causal-inverted")
    FORWARD.out(cases.causal, "causal-mask", control, catch=lambda: catch).run(ctx)
    for make in (cases.causal_offset, cases.empty_rows):
        FORWARD.out(make, "causal-alignment", control, known=(cases.causal,)).run(ctx)


@check("s3-forward.window", points=2, concept="window", needs=needs("causal"))
def npu_forward_window(ctx: Context) -> None:
    """mask_mode 4 with two sides, with one side open, and with S1 != S2."""
    catch = only(laid_out(suspects(WINDOW)), "window-ignored", "window-swapped")
    control, known = FORWARD.right_after(without_mask), (cases.causal,)
    FORWARD.out(cases.window, "window-mask", control, catch=lambda: catch, known=known).run(ctx)
    for make in (cases.half_open, cases.window_offset):
        FORWARD.out(make, "window-mask", control, known=known).run(ctx)


@check("s3-forward.bfloat16", points=1, concept="half-precision", needs=needs())
def npu_forward_bfloat16(ctx: Context) -> None:
    """bfloat16 in, bfloat16 out, no detour through float16."""

    def in_half(case: NpuCase) -> NpuCase:
        return case.but(q=case.q.half(), k=case.k.half(), v=case.v.half())

    FORWARD.out(cases.brain_float, "bfloat16-lost", FORWARD.right_after(in_half), dtypes=LOST).run(ctx)


@check("s3-forward.strided", points=1, concept="inputs", needs=needs())
def npu_forward_strided(ctx: Context) -> None:
    """k and v that are views: the operator wants them contiguous, and q may be either."""

    def contiguous(case: NpuCase) -> NpuCase:
        return case.but(strided=False)

    FORWARD.out(cases.strided, "assumes-contiguous", FORWARD.right_after(contiguous)).run(ctx)


@check("s3-forward.repeat", points=0.5, concept="repeatable", needs=needs())
def npu_forward_repeat(ctx: Context) -> None:
    """Inputs stay as they were; nothing is kept from one call to the next."""
    first, second = cases.causal(ctx.rng("first"), 0), cases.other_scale(ctx.rng("second"), 1)
    unchanged(ctx, run(ctx, NPU_FORWARD, first).changed, "qkv")
    repeatable(ctx, FORWARD.call, [first, second])


def hardware_cases(ctx: Context) -> list[NpuCase]:
    """The seeds' shape in float16 and, causal, a tail in bfloat16."""
    make = (
        cases.npu_drawing(cases.SEEDS_SHAPE),
        cases.npu_drawing(Shape(1, 4, 2, seq_q=200, dim=128), dtype=torch.bfloat16, mask_mode=3),
    )
    return [each(ctx.rng(i), 0) for i, each in enumerate(make)]


@check("s3-forward.hardware", points=0, concept="hardware", needs=needs())
def npu_forward_hardware(ctx: Context) -> None:
    """The same numbers as the kernel of this machine's NPU."""

    def call(ctx: Context, case: Attention) -> Sequence[Tensor]:
        assert isinstance(case, NpuCase)
        out, *rest = FORWARD.call(ctx, case)
        return to_layout(out, case.layout), *rest

    forward_like_kernel(ctx, hardware_cases(ctx), call)
