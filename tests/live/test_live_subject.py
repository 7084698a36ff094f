"""The learner's functions called in this process: copies, evidence, errors, what is refused."""

from __future__ import annotations

import time

import pytest
import torch

from grader.live.subject import LiveSubject
from grader.subject import Crashed, Missing, Raised, TimedOut, Where

PROGRAM = """
import math, torch, torch.nn.functional as F
from torch import nn

def double(x, *, y=None):
    print("noise")
    return x * 2

def spoil(x, y):
    x += 1
    return y

def naive(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v

def tiled(q, k, v):
    tiles = [q[:, :, i:i + 64] for i in range(0, q.shape[2], 64)]
    return torch.cat([torch.softmax(t @ k.transpose(-1, -2), -1) @ v for t in tiles], 2)

def library(q, k, v):
    try:
        return F.scaled_dot_product_attention(q, k, v)
    except Exception:
        return v

def multihead(x):
    return nn.MultiheadAttention(4, 2)(x, x, x)[0]

def numpy_way(x):
    return torch.from_numpy(x.numpy() * 2)

def fail(x):
    y = x + 1
    return y / 0 if isinstance(y, int) else missing_name

def loop(x):
    while True:
        try:
            x = x + 0
        except Exception:
            pass

def strides(x): return list(x.stride())
def odd(x): return {1, 2}
constant = 3

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x, x.sum()
    @staticmethod
    def backward(ctx, g, _):
        (x,) = ctx.saved_tensors
        return 2 * x * g

class ByAutograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(x * x, x, g)[0]

class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.proj = nn.Linear(n, n)
    def forward(self, x):
        return self.proj(x)
"""


@pytest.fixture(scope="module")
def namespace() -> dict:
    names: dict = {}
    exec(compile(PROGRAM, "<cell 3>", "exec"), names)
    return names


@pytest.fixture
def subject(namespace: dict) -> LiveSubject:
    return LiveSubject(namespace, limit=0.5)


def test_a_call_is_silent_and_returns_the_value(subject: LiveSubject, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = subject.call("double", torch.ones(2), y=torch.ones(1))
    assert torch.equal(outcome.value, torch.full((2,), 2.0))
    assert outcome.changed == ()
    assert capsys.readouterr() == ("", "")


def test_inputs_are_copied_with_strides_and_aliasing(subject: LiveSubject) -> None:
    base = torch.arange(12.0).view(3, 4)
    flipped = base.t()[1:]
    assert subject.call("strides", flipped).value == list(flipped.stride())
    outcome = subject.call("spoil", base[:2], base)
    assert outcome.changed == ("0", "1")  # they share memory, so changing one changes both
    assert torch.equal(outcome.value[:2], base[:2] + 1)
    assert torch.equal(base, torch.arange(12.0).view(3, 4))  # ours is untouched
    assert subject.call("spoil", base[:1], base[2:]).changed == ("0",)


def test_nan_in_an_input_is_no_change(subject: LiveSubject) -> None:
    assert subject.call("double", torch.tensor([float("nan")])).changed == ()


def test_memory_tells_tiles_from_the_whole_matrix(subject: LiveSubject) -> None:
    q = torch.randn(1, 1, 1024, 8)
    naive = subject.call("naive", q, q, q, memory=True, observe=True)
    tiled = subject.call("tiled", q, q, q, memory=True, observe=True)
    assert naive.peak_bytes is not None
    assert tiled.peak_bytes is not None
    assert naive.peak_bytes >= 2 * 4 * 1024 * 1024 > 4 * tiled.peak_bytes
    assert naive.trace is not None
    assert tiled.trace is not None
    assert naive.trace.largest == 1024 * 1024
    assert naive.trace.flops == tiled.trace.flops == 4 * 1024 * 1024 * 8
    assert tiled.trace.largest <= 64 * 1024


@pytest.mark.parametrize(("name", "args"), [("library", 3), ("multihead", 1)])
def test_library_attention_is_refused_even_when_the_learner_catches_it(
    subject: LiveSubject, name: str, args: int
) -> None:
    x = torch.randn(1, 1, 4, 4) if args == 3 else torch.randn(3, 1, 4)
    with pytest.raises(Raised, match="ready-made attention is not allowed") as caught:
        subject.call(name, *[x] * args)
    assert caught.value.where is not None


def test_bans_of_the_exercise(namespace: dict) -> None:
    x = torch.ones(2, 2)
    assert torch.equal(LiveSubject(namespace).call("numpy_way", x).value, x * 2)
    with pytest.raises(Raised, match="tensors are to stay in torch"):
        LiveSubject(namespace, ["numpy"]).call("numpy_way", x)
    with pytest.raises(Raised, match="softmax is to be written by hand"):
        LiveSubject(namespace, ["softmax"]).call("naive", x, x, x)
    with pytest.raises(Raised, match="gradients are to be written by hand"):
        LiveSubject(namespace, ["autograd"]).backward("ByAutograd", [x], [x], [0])


def test_backward_gives_outputs_gradients_and_what_is_differentiable(namespace: dict) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    outcome = LiveSubject(namespace, ["autograd"]).backward("Square", [x], [torch.ones(3), None], [0])
    (square, total), (gradient,) = outcome.value
    assert torch.equal(square, x * x)
    assert float(total) == 6
    assert torch.equal(gradient, 2 * x)
    assert outcome.differentiable == (True, True)
    assert not x.requires_grad


def test_errors_name_cell_and_line(subject: LiveSubject) -> None:
    with pytest.raises(Raised) as caught:
        subject.call("fail", torch.ones(1))
    line = next(n for n, text in enumerate(PROGRAM.split("\n"), 1) if "missing_name" in text)
    assert (caught.value.kind, caught.value.where) == ("NameError", Where(3, line))


def test_an_endless_loop_ends_though_it_catches_exceptions(subject: LiveSubject) -> None:
    start = time.monotonic()
    with pytest.raises(TimedOut) as caught:
        subject.call("loop", torch.ones(1))
    assert time.monotonic() - start < 3
    assert caught.value.where is not None


def test_what_is_not_there_or_is_something_else(subject: LiveSubject) -> None:
    with pytest.raises(Missing) as caught:
        subject.call("nothing_of_this_name")
    assert caught.value.found is None
    with pytest.raises(Missing) as caught:
        subject.call("constant")
    assert caught.value.found == "int"
    with pytest.raises(Crashed, match="garbage"):
        subject.call("odd", torch.ones(1))


def test_modules_are_made_loaded_and_called(subject: LiveSubject) -> None:
    handle = subject.construct("Layer", 3)
    state = {name: torch.zeros_like(value) for name, value in subject.state(handle).items()}
    assert set(state) == {"proj.weight", "proj.bias"}
    state["proj.bias"] += 5
    subject.load_state(handle, state)
    outcome = subject.forward(handle, torch.randn(2, 3))
    assert torch.equal(outcome.value, torch.full((2, 3), 5.0))
    assert outcome.differentiable == (True,)


def test_the_kernel_stays_as_it_was(subject: LiveSubject) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    subject.call("double", torch.ones(2))
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
