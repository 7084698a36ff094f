"""The live check in stage 3: the learner's functions get tensors of the kernel's NPU."""

from __future__ import annotations

import time

import pytest
import torch

from grader.live.device import device
from grader.live.subject import LiveSubject
from grader.subject import Crashed, Provided


@pytest.fixture(scope="module")
def npu():
    return device("npu")


def test_inputs_are_on_the_npu_with_their_strides_and_results_come_back(npu):
    def look(x, y):
        return x + 1, x.stride(), str(x.device), y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()

    both = torch.arange(24.0).reshape(4, 6)
    outcome = LiveSubject({"look": look}, device=npu).call("look", both.t()[1:], both[1:])
    value, stride, where, shared = outcome.value
    assert torch.equal(value, both.t()[1:] + 1)
    assert (stride, where, shared) == ((1, 6), "npu:0", True)
    assert outcome.devices == ("npu:0",)
    assert outcome.changed == ()


def test_a_changed_input_shows_and_the_original_stays(npu):
    def write(x):
        return x.mul_(2)

    x = torch.ones(3, dtype=torch.bfloat16)
    outcome = LiveSubject({"write": write}, device=npu).call("write", x)
    assert outcome.changed == ("0",)
    assert torch.equal(x, torch.ones(3, dtype=torch.bfloat16))


def test_gradients_are_computed_on_the_npu(npu):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert x.device.type == "npu"
            return 2 * x * grad

    x, grad = torch.randn(5), torch.randn(5)
    value, (found,) = LiveSubject({"Square": Square}, device=npu).backward("Square", [x], [grad], [0]).value
    assert torch.equal(value, x * x)
    assert torch.allclose(found, 2 * x * grad)


def test_modules_are_moved(npu):
    subject = LiveSubject({"M": torch.nn.Linear}, device=npu)
    handle = subject.construct("M", 3, 2)
    state = {"weight": torch.randn(2, 3), "bias": torch.randn(2)}
    subject.load_state(handle, state)
    assert torch.equal(subject.state(handle)["weight"], state["weight"])
    outcome = subject.forward(handle, torch.ones(1, 3))
    assert outcome.devices == ("npu:0",)
    assert torch.allclose(outcome.value, state["weight"].sum(1) + state["bias"], atol=1e-6)


def test_a_queued_kernel_returns_before_it_is_done(npu):
    def both(fn):
        start = time.perf_counter()
        fn()
        queued = time.perf_counter() - start
        torch.npu.synchronize()
        return queued, time.perf_counter() - start

    subject = LiveSubject({"both": both}, device=npu)
    queued, done = subject.call("both", Provided("queued_kernel", {"seconds": 0.1})).value
    assert queued < 0.05
    assert done >= 0.1


def test_another_chip_for_one_exercise_only(npu):
    subject = LiveSubject({"name": lambda: torch.npu.get_device_name(0)}, device=npu, soc="Ascend910B3")
    before = torch.npu.get_device_name(0)
    assert "910B3" in subject.call("name").value
    assert torch.npu.get_device_name(0) == before


def test_a_tensor_from_nowhere_is_refused(npu):
    with pytest.raises(Crashed, match="npu"):
        LiveSubject({"meta": lambda: torch.empty(2, device="meta")}, device=npu).call("meta")


def test_on_the_cpu_nothing_is_provided():
    with pytest.raises(LookupError):
        LiveSubject({"f": lambda fn: fn()}).call("f", Provided("queued_kernel", {"seconds": 0.1}))
