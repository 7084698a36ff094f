"""How the checks call functions that use the NPU's operators, and what an operator's refusal says about the caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from grader.checking.examine import Examination, all_right
from grader.subject import Outcome, Raised, Trace
from grader.vocabulary import Context, say

from .npu_cases import NpuCase, expect_lse, expect_out
from .npu_mistakes import forward_suspects

NAMES = ("attn_out", "softmax_lse")
FLASH_ATTN, FLASH_ATTN_GRAD = "cann_ops_transformer.flash_attn", "cann_ops_transformer.flash_attn_grad"
FUSION = "npu.npu_fusion_attention"
LOST = {torch.float16: "bfloat16-lost", torch.float32: "bfloat16-lost"}  # dtypes of results for bfloat16 inputs

# what an operator says when it refuses arguments -> the idea behind them; the inputs of a check are always acceptable
REFUSALS = [
    (re.compile(pattern), misconception)
    for pattern, misconception in (
        (r"Expected a value of type [^\0]*Position:", "operator-by-position"),
        (r"tensors must be on |on the NPU(:| only)|the NPU; move it|two devices|same device", "mixed-devices"),
        (r"is_grad_enabled is False", "metadata-without-gradients"),
        (r"metadata is missing|carries no fingerprint", "metadata-missing"),
        (r"metadata was made for other arguments", "metadata-mismatch"),
        (r"atte?n_mask is missing", "mask-tensor-missing"),
        (r"atte?n_mask is given", "mask-tensor-unwanted"),
        (r"atte?n_mask", "mask-tensor-wrong"),
        (r"needs it contiguous|stride of 0", "kv-not-contiguous"),
        (r"must be float16 or bfloat16", "operator-dtype"),
        (r"win_(left|right) is .* has no window", "window-without-mode"),
        (r"cu_seqlens_\w+ is (missing|given)|do not go together", "layout-arguments"),
        (r"the first sequence begins at 0", "varlen-no-leading-zero"),
    )
]


@contextmanager
def refusals_named() -> Iterator[None]:
    """An operator that refuses its arguments says which idea is behind them."""
    try:
        yield
    except Raised as error:
        if error.misconception is None and error.kind in ("RuntimeError", "ValueError"):
            error.misconception = idea_behind(error.text)
        raise


def idea_behind(refusal: str) -> str | None:
    """Of several faults only the first is judged: the others may follow from it."""
    first = refusal.split("\n  also:")[0].split("\nDeclaration:")[0]  # the latter is torch's: the whole schema follows
    return next((name for found, name in REFUSALS if found.search(first)), None)


def run(ctx: Context, function: str, case: NpuCase, **watch: bool) -> Outcome:
    with refusals_named():
        return ctx.subject.call(function, *case.inputs(), **case.options(), **watch)


def require_operator(ctx: Context, outcome: Outcome, *operators: str, least: int = 1) -> None:
    """Each of ``operators`` was called ``least`` times or more: doing attention by hand is stages 1 and 2."""
    if outcome.trace is None:
        raise RuntimeError("the subject observed nothing")
    seen = outcome.trace.operators
    for operator in operators:
        if seen.get(operator, 0) < least:
            ctx.fail(
                say(
                    "没有看到对算子 {operator} 的调用（看到 {seen} 次，至少应有 {least} 次）。",
                    "The operator {operator} was not called as it should be: seen {seen} times, needed {least}.",
                    operator=operator,
                    seen=seen.get(operator, 0),
                    least=least,
                ),
                misconception="operator-not-called",
                evidence={"got": dict(seen), "expected": operator},
            )


def require_results(ctx: Context, outcome: Outcome, *operators: str) -> None:
    """The first tensors of the value are what these operators gave, in whatever layout ("" for any)."""
    require_operator(ctx, outcome, *filter(None, operators))
    trace = outcome.trace or Trace()
    if trace.flops or trace.exponentials:
        ctx.fail(
            say(
                "算子之外还有自己的矩阵乘或指数运算；这道题的结果应全部出自 {operator}。",
                "There are matrix products or exponentials of your own beside the operator; the result should be all "
                "{operator}'s.",
                operator=next(filter(None, operators)),
            ),
            misconception="operator-for-show",
            evidence={"got": {"flops": trace.flops, "exponentials": sum(trace.exponentials.values())}},
        )
    origins = trace.origins
    for place, (operator, origin) in enumerate(zip(operators, origins, strict=False)):
        if operator and origin != operator:
            ctx.fail(
                say(
                    "算子 {operator} 被调用了，但返回的第 {place} 个张量不是它算出来的。",
                    "The operator {operator} was called, but tensor {place} of the result is not what it computed.",
                    operator=operator,
                    place=place + 1,
                ),
                misconception="operator-for-show",
                evidence={"got": list(origins), "expected": operator},
            )


def require_npu(ctx: Context, outcome: Outcome) -> None:
    """Every returned tensor was on the NPU."""
    strange = [device for device in outcome.devices if not device.startswith("npu")]
    if strange:
        ctx.fail(
            say(
                "返回的张量在 {got} 上，应留在 NPU 上。",
                "The returned tensors are on {got}; they should stay on the NPU.",
                got=", ".join(outcome.devices),
            ),
            misconception="result-off-device",
            evidence={"got": list(outcome.devices)},
        )


Control = Callable[[Context, NpuCase], bool]


class Calls:
    """Examinations of one function that computes attention through ``operator``."""

    def __init__(self, function: str, operator: str, *, gives_lse: bool = True):
        """``gives_lse``: the operator's own softmax_lse is what is to be returned."""
        self.function, self.operator, self.gives_lse = function, operator, gives_lse

    def call(self, ctx: Context, case: NpuCase) -> Any:
        outcome = run(ctx, self.function, case, observe=True)
        if all_right(outcome.value, expect_out(case), NAMES):  # wrong values say more about what is wrong
            lse = self.gives_lse and all_right(outcome.value, expect_lse(case), NAMES)
            require_results(ctx, outcome, self.operator, self.operator if lse else "")
        require_operator(ctx, outcome, self.operator)
        return outcome.value

    def right(self, ctx: Context, case: NpuCase) -> bool:
        return all_right(self.call(ctx, case), expect_out(case), NAMES)

    def right_after(self, change: Callable[[NpuCase], NpuCase]) -> Control:
        """Control: the same inputs after ``change``, which takes away what the check is about."""
        return lambda ctx, case: self.right(ctx, change(case))

    def out(self, make: Any, otherwise: str | None = None, control: Control | None = None, **more: Any) -> Examination:
        """attn_out of one regime."""
        return Examination(
            call=self.call,
            make=make,
            expect=expect_out,
            suspects=forward_suspects,
            otherwise=otherwise,
            control=control,
            names=NAMES,
            shapes=out_shapes,
            **more,
        )

    def lse(self, make: Any, suspects: Any, otherwise: str | None = None, **more: Any) -> Examination:
        """softmax_lse of one regime, where attn_out is right."""
        return Examination(
            call=self.call,
            make=make,
            expect=expect_lse,
            suspects=suspects,
            otherwise=otherwise,
            control=self.right,
            names=NAMES,
            shapes=lse_shapes,
            **more,
        )


def out_shapes(case: NpuCase) -> dict[str, dict[tuple[int, ...], str]]:
    b, n, s, d = case.q.shape
    other = (b, n, s, d) if case.layout == "BSND" else (b, s, n, d)
    return {"attn_out": {other: "layout-of-the-result"} if n != s else {}}


def lse_shapes(case: NpuCase) -> dict[str, dict[tuple[int, ...], str]]:
    b, n, s, _ = case.q.shape
    return {
        "softmax_lse": {
            (0,): "lse-not-requested",
            (1,): "lse-not-requested",
            (b, s, n): "lse-shape",
            (b, n, s, 1): "lse-shape",
            (b, n, s, 8): "lse-all-eight",
        }
    }


def without_mask(case: NpuCase) -> NpuCase:
    return case.but(mask_mode=0)
