"""Checks of s3-fusion: the 910B's operator, and softmax_lse from the maxima and sums that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from grader.checking.attention_ideas import CAUSAL
from grader.checking.cases import Attention
from grader.checking.examine import only
from grader.checking.hardware import forward_like_kernel
from grader.checking.wrong_attention import suspects
from grader.vocabulary import Context, check

from . import npu_cases as cases
from .checks_forward import hardware_cases
from .npu_calls import FUSION, Calls, without_mask
from .npu_cases import NpuCase, to_layout
from .npu_mistakes import LSE, SCALE, empty_lse_suspects, laid_out, lse_suspects

NPU_FUSION = "npu_fusion"
FUSED = Calls(NPU_FUSION, FUSION, gives_lse=False)
FUSION_VALUES = "s3-fusion.values"


@check(FUSION_VALUES, points=3.5, concept="operator-call")
def fusion_values(ctx: Context) -> None:
    """No mask, BSND, heads in groups, the scale passed explicitly (the operator's default is 1.0)."""
    catch = only(laid_out(suspects(SCALE)), "scale-default-forward")
    FUSED.out(cases.seeds, catch=lambda: catch).run(ctx)


FUSION_NEEDS = (FUSION_VALUES,)


@check("s3-fusion.lse", points=2.5, concept="lse", needs=FUSION_NEEDS)
def fusion_lse(ctx: Context) -> None:
    """softmax_max + log(softmax_sum), one number per row: float32 [B, N1, S1]."""
    catch = only(suspects(LSE), "lse-without-sum", "lse-without-log", "lse-without-max")
    FUSED.lse(cases.seeds, lse_suspects, "lse-value", catch=lambda: catch).run(ctx)


@check("s3-fusion.scale", points=0.5, concept="scale", needs=FUSION_NEEDS)
def fusion_scale(ctx: Context) -> None:
    FUSED.out(cases.other_scale, known=(cases.seeds,)).run(ctx)


@check("s3-fusion.layout", points=1.5, concept="layouts", needs=FUSION_NEEDS)
def fusion_layout(ctx: Context) -> None:
    """BNSD, whose heads are on another axis."""

    def in_bsnd(case: NpuCase) -> NpuCase:
        return case.but(layout="BSND")

    FUSED.out(cases.other_layout, "layout-ignored", FUSED.right_after(in_bsnd)).run(ctx)


@check("s3-fusion.causal", points=1.5, concept="causal", needs=FUSION_NEEDS)
def fusion_causal(ctx: Context) -> None:
    """The mask tensor says what is hidden; a mask of the wrong polarity, or none, shows."""
    catch = only(laid_out(suspects(CAUSAL)), "causal-ignored", "causal-inverted")
    FUSED.out(cases.causal, "causal-mask", FUSED.right_after(without_mask), catch=lambda: catch).run(ctx)


@check("s3-fusion.alignment", points=1, concept="causal-alignment", needs=(*FUSION_NEEDS, "s3-fusion.causal"))
def fusion_alignment(ctx: Context) -> None:
    """S1 != S2: sparse_mode 3 is aligned bottom-right, sparse_mode 2 top-left."""
    catch = only(laid_out(suspects(CAUSAL)), "causal-top-left")
    control, known = FUSED.right_after(without_mask), (cases.causal,)
    more: dict[str, Any] = {"catch": lambda: catch, "known": known}
    FUSED.out(cases.causal_offset, "causal-alignment", control, **more).run(ctx)


@check(
    "s3-fusion.empty-rows", points=0.5, concept="empty-rows", needs=(*FUSION_NEEDS, "s3-fusion.lse", "s3-fusion.causal")
)
def fusion_empty_rows(ctx: Context) -> None:
    """S1 > S2, causal: the operator gives -FLT_MAX and FLT_MAX in rows that see no key; the lse there is +inf."""
    FUSED.out(cases.empty_rows, "empty-row", FUSED.right_after(without_mask), known=(cases.causal,)).run(ctx)
    FUSED.lse(cases.empty_rows, empty_lse_suspects, "lse-of-empty-rows").run(ctx)


@check("s3-fusion.window", points=1, concept="window", needs=(*FUSION_NEEDS, "s3-fusion.causal"))
def fusion_window(ctx: Context) -> None:
    """sparse_mode 4 with pre_tockens and next_tockens; -1 is 2147483647 there."""
    for make in (cases.window, cases.half_open, cases.window_offset):
        FUSED.out(make, "window-mask", FUSED.right_after(without_mask), known=(cases.causal,)).run(ctx)


@check("s3-fusion.hardware", points=0, concept="hardware", needs=FUSION_NEEDS)
def fusion_hardware(ctx: Context) -> None:
    """The same numbers as the kernel of this machine's NPU."""
    forward_like_kernel(ctx, hardware_cases(ctx), _in_bnsd)


def _in_bnsd(ctx: Context, case: Attention) -> Sequence[Tensor]:
    assert isinstance(case, NpuCase)
    out, *rest = FUSED.call(ctx, case)
    return to_layout(out, case.layout), *rest
