"""Learner code against the kernel of a real NPU, under the tolerance of the operator's own tests.

These checks carry no points and are not measured where there is no NPU: a stage is 100 points on every machine.
Source of the rule: flash_attn, tests/pytests/utils/compare.py: an element is bad when |a - b| > atol + rtol |b|, and at
most 0.5 % may be bad; a row that sees no key may have softmax_lse +inf or -inf. A kernel that raises has nothing to
compare with: the check is then not measured either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from grader.checking.cases import Attention
from grader.checking.compare import require_tensors, returned
from grader.checking.gradients import NAMES, given_dout, inputs
from grader.vocabulary import Context, say

if TYPE_CHECKING:
    from kernels.ascend.backend import Backend

TOLERANCE = {torch.float16: (2.5e-5, 0.005), torch.bfloat16: (1e-4, 0.0078125)}  # dtype of the case: atol, rtol
MOST_BAD = 0.005
GRADIENT_FLOOR = 1e-3  # of the largest gradient: near 0 they are differences of large terms

Call = Callable[[Context, Attention], Sequence[Tensor]]
Answer = TypeVar("Answer")


def bad_share(got: Tensor, kernel: Tensor, dtype: torch.dtype, floor: float = 0.0) -> float:
    """The part of all elements that is bad; NaN is bad. ``floor`` adds to atol."""
    atol, rtol = TOLERANCE[dtype]
    a, b = got.double(), kernel.double()
    a, b = (x.masked_fill(x == torch.inf, -torch.inf) for x in (a, b))
    good = torch.isclose(a, b, rtol=rtol, atol=atol + floor)
    return float((~good).double().mean()) if good.numel() else 0.0


def of_kernel(ctx: Context, backend: Backend, compute: Callable[[], Answer]) -> Answer:
    """What the kernel computes; when it raises, whatever that is, the check ends as not measured."""
    try:
        return compute()
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        reason = f"{type(error).__name__}: {first_line}"
        ctx.not_measured(
            say(
                "没有和真实算子比较：{name} 的算子自己出错了（{reason}）。这不是你的问题。",
                "not compared with the real kernel: that of {name} failed itself ({reason}). Not your mistake.",
                name=backend.name,
                reason=reason,
            )
        )


def forward_like_kernel(ctx: Context, cases: Sequence[Attention], call: Call) -> None:
    """``call`` returns (attn_out, softmax_lse) for [B, N, S, D] inputs; both must be the kernel's."""
    backend = ctx.hardware()
    for case in cases:
        kernel = of_kernel(ctx, backend, lambda case=case: _forward(backend, case))  # type: ignore[misc]
        got = require_tensors(ctx, call(ctx, case), ("attn_out", "softmax_lse"))
        _require(ctx, case, dict(zip(("attn_out", "softmax_lse"), zip(got, kernel, strict=True), strict=True)))


def backward_like_kernel(ctx: Context, cases: Sequence[Attention], call: Call) -> None:
    """``call`` returns (dq, dk, dv) for a case with an upstream gradient; all must be the kernel's. Cases for which its
    documents promise no gradients are left out."""
    backend = ctx.hardware()
    promised = [case for case in cases if backend.documents_backward(case.q.dtype, case.mask_mode)]
    if not promised:
        ctx.not_measured(
            say(
                "没有和真实算子比较：{name} 的文档没有承诺这些输入的梯度。",
                "not compared with the real kernel: the documents of {name} promise no gradients for these inputs.",
                name=backend.name,
            )
        )
    for case in promised:
        kernel = of_kernel(ctx, backend, lambda case=case: _backward(backend, case))  # type: ignore[misc]
        got = require_tensors(ctx, call(ctx, case), NAMES)
        _require(ctx, case, dict(zip(NAMES, zip(got, kernel, strict=True), strict=True)), gradients=True)


def _forward(backend: Backend, case: Attention) -> list[Tensor]:
    kernel = backend.forward(case.q, case.k, case.v, scale=case.factor, **_mask(case))
    return [x.detach().cpu() for x in kernel]


def _backward(backend: Backend, case: Attention) -> list[Tensor]:
    q, k, v, _, out, lse = inputs(case)
    kernel = backend.backward(q, k, v, given_dout(case), out, lse, scale=case.factor, **_mask(case))
    return [x.detach().cpu() for x in kernel]


def _mask(case: Attention) -> dict[str, int]:
    return {"mask_mode": case.mask_mode, "win_left": case.win_left, "win_right": case.win_right}


def _require(
    ctx: Context, case: Attention, pairs: Mapping[str, tuple[Tensor, Tensor]], gradients: bool = False
) -> None:
    for name, (got, kernel) in pairs.items():
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
