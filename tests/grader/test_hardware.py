"""Comparison with a real NPU's kernel: upstream's rule of closeness, a kernel that fails, who has a kernel at all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import kernels.ascend.backend
from grader import hardware, results
from grader.checking.cases import Attention
from grader.checking.gradients import inputs
from grader.checking.hardware import MOST_BAD, backward_like_kernel, bad_share, forward_like_kernel
from grader.inputs import Secret
from grader.text import Text
from grader.vocabulary import CheckFailed, Context, NotMeasured
from kernels.ascend.backend import Ascend910B, Ascend950, Backend, CpuReference
from kernels.machine import FAULTS, Situation

HALF = torch.float16


def drawn(rows: int = 50, dtype: torch.dtype = HALF, **fields: Any) -> Attention:
    rng = np.random.default_rng(rows)
    shape = (1, 1, rows, 4)
    q, k, v, dout = (torch.from_numpy(rng.normal(size=shape)).to(dtype) for _ in range(4))
    return Attention(q, k, v, dout=dout, **fields)


# ------------------------------------------------------------------------------------------------------- closeness


@pytest.mark.parametrize(("dtype", "atol", "rtol"), [(HALF, 2.5e-5, 0.005), (torch.bfloat16, 1e-4, 0.0078125)])
def test_an_element_is_bad_beyond_upstreams_tolerance(dtype, atol, rtol):
    kernel = torch.full((10,), 3.0, dtype=torch.float64)
    for much, share in ((0.999, 0.0), (1.001, 1.0)):
        for sign in (1, -1):
            assert bad_share(kernel + sign * much * (atol + rtol * 3), kernel, dtype) == share


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.0])
def test_nan_is_bad_even_where_the_kernel_has_one(value):
    assert bad_share(torch.tensor([math.nan]), torch.tensor([value]), HALF) == 1
    assert bad_share(torch.tensor([value]), torch.tensor([math.nan]), HALF) == 1


def test_infinities_are_equal_whatever_their_sign_and_equal_to_nothing_else():
    plus, minus = torch.tensor([math.inf]), torch.tensor([-math.inf])
    for a in (plus, minus):
        for b in (plus, minus):
            assert bad_share(a, b, HALF) == 0
        assert bad_share(a, torch.tensor([6e4]), HALF) == bad_share(torch.tensor([6e4]), a, HALF) == 1


def test_nothing_has_no_bad_element():
    assert bad_share(torch.empty(0, 4), torch.empty(0, 4), HALF) == 0


# -------------------------------------------------------------------------------------------- checks with a double


class Double(CpuReference):
    """The CPU's reference in the place of a kernel; ``error`` is raised in its stead."""

    name = "a double"

    def __init__(self, error: Exception | None = None, promises: bool = True):
        super().__init__()
        self.error, self.promises = error, promises

    def _forward(self, *args: Any) -> Any:
        return self._or_error(super()._forward(*args))

    def _backward(self, *args: Any) -> Any:
        return self._or_error(super()._backward(*args))

    def _or_error(self, answer: Any) -> Any:
        if self.error is not None:
            raise self.error
        return answer

    def documents_backward(self, dtype: torch.dtype, mask_mode: int) -> bool:
        return self.promises


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(backend: Backend) -> Context:
        monkeypatch.setattr(hardware, "kernels_here", lambda: (backend, Text("替身", "a double")))
        return Context(None, "s9-x.hardware")  # type: ignore[arg-type]

    return make


def forward(ctx: Context, case: Attention) -> list[torch.Tensor]:
    return list(CpuReference().forward(case.q, case.k, case.v, scale=case.factor, mask_mode=case.mask_mode))


def backward(ctx: Context, case: Attention) -> list[torch.Tensor]:
    return list(CpuReference().backward(*inputs(case), scale=case.factor, mask_mode=case.mask_mode))


CHECKS = pytest.mark.parametrize(
    ("like_kernel", "call"),
    [(forward_like_kernel, forward), (backward_like_kernel, backward)],
    ids=["forward", "backward"],
)


@CHECKS
def test_what_the_kernel_computes_passes(context, like_kernel, call):
    like_kernel(context(Double()), [drawn(), drawn(7, torch.bfloat16, mask_mode=3)], call)


@CHECKS
@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16])
def test_half_a_percent_may_be_bad_and_one_element_more_may_not(context, like_kernel, call, dtype):
    case, bad = drawn(50, dtype), int(MOST_BAD * 200)

    def off(number: int) -> Any:
        def wrong(ctx: Context, case: Attention) -> list[torch.Tensor]:
            first, *rest = call(ctx, case)
            first = first.clone()
            first.view(-1)[:number] += 1
            return [first, *rest]

        return wrong

    ctx = context(Double())
    like_kernel(ctx, [case], off(bad))
    with pytest.raises(CheckFailed, match=r"differs from the real kernel in 1\.0% of its elements") as failed:
        like_kernel(ctx, [case], off(bad + 1))
    assert failed.value.evidence["tensor"] == ("attn_out" if call is forward else "dq")
    assert failed.value.evidence["got"] == pytest.approx((bad + 1) / 200)


@CHECKS
def test_another_shape_fails(context, like_kernel, call):
    def turned(ctx: Context, case: Attention) -> list[torch.Tensor]:
        first, *rest = call(ctx, case)
        return [first.transpose(1, 2), *rest]

    with pytest.raises(CheckFailed, match="the real kernel gives"):
        like_kernel(context(Double()), [drawn()], turned)


def test_a_gradient_may_miss_a_thousandth_of_the_largest_one(context):
    """Near 0 a gradient is a difference of large terms; an output has no such floor."""
    case = drawn()
    kernel = backward(None, case)  # type: ignore[arg-type]
    floor = 1e-3 * float(kernel[0].double().abs().max())

    def near(much: float) -> Any:
        def call(ctx: Context, case: Attention) -> list[torch.Tensor]:
            dq, dk, dv = (x.double() for x in kernel)
            return [dq + much * floor, dk, dv]

        return call

    backward_like_kernel(context(Double()), [case], near(0.99))
    assert bad_share(kernel[0].double() + 0.99 * floor, kernel[0], HALF) > MOST_BAD
    with pytest.raises(CheckFailed):
        backward_like_kernel(context(Double()), [case], near(20))


@CHECKS
@pytest.mark.parametrize("error", [RuntimeError("E89999: inner\nand more"), AttributeError("no x"), KeyError()])
def test_a_kernel_that_fails_itself_is_nobodys_failure(context, like_kernel, call, error):
    with pytest.raises(NotMeasured) as ended:
        like_kernel(context(Double(error)), [drawn()], call)
    for text in (ended.value.message.zh, ended.value.message.en):
        assert type(error).__name__ in text
        assert "a double" in text
        assert "and more" not in text


def test_what_the_learners_code_raises_stays_the_learners(context):
    def call(ctx: Context, case: Attention) -> list[torch.Tensor]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        forward_like_kernel(context(Double()), [drawn()], call)


def test_gradients_that_no_document_promises_are_not_compared(context):
    def wrong(ctx: Context, case: Attention) -> list[torch.Tensor]:
        raise AssertionError("nothing is asked for")

    with pytest.raises(NotMeasured, match="promise no gradients"):
        backward_like_kernel(context(Double(promises=False)), [drawn()], wrong)


def test_the_950_promises_float16_without_a_mask():
    """torchapi_flash_attn_grad.md; the 910B promises all that it takes."""
    on_950, on_910b = Ascend950(None, "cpu"), Ascend910B(None, "cpu")  # type: ignore[arg-type]
    for dtype in (HALF, torch.bfloat16):
        for mask_mode in (0, 3, 4):
            assert on_950.documents_backward(dtype, mask_mode) is (dtype == HALF and mask_mode == 0)
            assert on_910b.documents_backward(dtype, mask_mode)


# ----------------------------------------------------------------------------------------------- who has a kernel


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def set_situation(**fields: Any) -> None:
        situation = Situation(**{"torch": "2.12.0", **fields})
        monkeypatch.setattr("kernels.machine.detect", lambda: situation)
        hardware.kernels_here.cache_clear()

    yield set_situation
    hardware.kernels_here.cache_clear()


@pytest.mark.parametrize("fields", [{"kind": "none"}, {"kind": "emulated", "soc": "Ascend950PR_9599 (emulated)"}])
def test_no_npu_or_an_emulated_one_is_no_npu(found, fields):
    found(**fields)
    backend, why = hardware.kernels_here()
    assert backend is None
    assert "no Ascend NPU on this machine" in why.en
    assert "没有昇腾 NPU" in why.zh
    assert hardware.npu_here() is None


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_in_the_way_is_the_reason(found, fault):
    found(kind="none", fault=fault, soc="Ascend910A", torch_npu="2.12.0", detail="<detail>")
    backend, why = hardware.kernels_here()
    assert backend is None
    assert why.en.startswith("not compared with the real kernel: ")
    assert why.zh.startswith("没有和真实算子比较：")
    with pytest.raises(NotMeasured, match="not compared"):
        Context(None, "x").hardware()  # type: ignore[arg-type]


def test_a_real_npu_is_named_in_the_document(found, monkeypatch):
    found(kind="910B", soc="Ascend910B3", torch_npu="2.12.0")
    double = Double()
    monkeypatch.setattr(kernels.ascend.backend, "backend_for", lambda situation: double)
    assert hardware.kernels_here()[0] is Context(None, "x").hardware() is double  # type: ignore[arg-type]
    monkeypatch.setattr("grader.hardware.importlib.util.find_spec", lambda name: object())
    document = results.document([], secret=Secret())
    assert document["device"] | {"kind": "npu", "npu": "Ascend910B3"} == document["device"]
    results.validate(document)


def test_a_real_npu_that_cannot_be_brought_in_is_a_reason(found, monkeypatch):
    found(kind="950", soc="Ascend950PR_9599", torch_npu="2.12.0", cann_ops_transformer="1.0.0")

    def broken(situation: Situation) -> None:
        raise OSError("libascend_hal.so")

    monkeypatch.setattr(kernels.ascend.backend, "backend_for", broken)
    backend, why = hardware.kernels_here()
    assert backend is None
    assert "OSError: libascend_hal.so" in why.en
