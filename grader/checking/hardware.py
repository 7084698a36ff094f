"""Learner code against the kernel of a real NPU, under the tolerance of the operator's own tests.

These checks carry no points and are not measured where there is no NPU: a stage is 100 points on every machine.
Source of the rule: flash_attn, tests/pytests/utils/compare.py: an element is bad when |a - b| > atol + rtol |b|, and at
most 0.5 % may be bad; a row that sees no key may have softmax_lse +inf or -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from grader.checking.cases import Attention
from grader.checking.compare import require_tensors, returned
from grader.checking.gradients import NAMES, given_dout, inputs
from grader.vocabulary import Context, say

TOLERANCE = {torch.float16: (2.5e-5, 0.005), torch.bfloat16: (1e-4, 0.0078125)}  # dtype of the case: atol, rtol
MOST_BAD = 0.005
GRADIENT_FLOOR = 1e-3  # of the largest gradient: near 0 they are differences of large terms

Call = Callable[[Context, Attention], Sequence[Tensor]]


def bad_share(got: Tensor, kernel: Tensor, dtype: torch.dtype, floor: float = 0.0) -> float:
    """The part of all elements that is bad; NaN is bad. ``floor`` adds to atol."""
    atol, rtol = TOLERANCE[dtype]
    a, b = got.double(), kernel.double()
    a, b = (x.masked_fill(x == torch.inf, -torch.inf) for x in (a, b))
    good = torch.isclose(a, b, rtol=rtol, atol=atol + floor)
    return 1 - float(good.double().mean()) if good.numel() else 0.0


def forward_like_kernel(ctx: Context, cases: Sequence[Attention], call: Call) -> None:
    """``call`` returns (attn_out, softmax_lse) for [B, N, S, D] inputs; both must be the kernel's."""
    backend = ctx.hardware()
    for case in cases:
        options = {"mask_mode": case.mask_mode, "win_left": case.win_left, "win_right": case.win_right}
        kernel = backend.forward(case.q, case.k, case.v, scale=case.factor, **options)
        got = require_tensors(ctx, call(ctx, case), ("attn_out", "softmax_lse"))
        _require(ctx, case, dict(zip(("attn_out", "softmax_lse"), zip(got, kernel, strict=True), strict=True)))


def backward_like_kernel(ctx: Context, cases: Sequence[Attention], call: Call) -> None:
    """``call`` returns (dq, dk, dv) for a case with an upstream gradient; all must be the kernel's."""
    backend = ctx.hardware()
    for case in cases:
        options = {"mask_mode": case.mask_mode, "win_left": case.win_left, "win_right": case.win_right}
        q, k, v, _, out, lse = inputs(case)
        kernel = backend.backward(q, k, v, given_dout(case), out, lse, scale=case.factor, **options)
        got = require_tensors(ctx, call(ctx, case), NAMES)
        _require(ctx, case, dict(zip(NAMES, zip(got, kernel, strict=True), strict=True)), gradients=True)


def _require(
    ctx: Context, case: Attention, pairs: Mapping[str, tuple[Tensor, Tensor]], gradients: bool = False
) -> None:
    for name, (got, on_device) in pairs.items():
        kernel = on_device.detach().cpu()
        evidence = {"tensor": name, "case": str(case.describe())}
        if got.shape != kernel.shape:
            ctx.fail(
                say(
                    "{name}：真机的算子给出 {want}，你的是 {got}。",
                    "{name}: the real kernel gives {want}, yours is {got}.",
                    name=name,
                    want=returned(kernel),
                    got=returned(got),
                ),
                evidence=evidence,
            )
        floor = GRADIENT_FLOOR * float(kernel.double().abs().max()) if gradients else 0.0
        share = bad_share(got, kernel, case.q.dtype, floor)
        if share > MOST_BAD:
            ctx.fail(
                say(
                    "{name} 有 {share:.1%} 的元素与真机算子的结果不符（允许 0.5%）。",
                    "{name} differs from the real kernel in {share:.1%} of its elements (0.5% may).",
                    name=name,
                    share=share,
                ),
                evidence={**evidence, "got": share, "expected": MOST_BAD},
            )
