"""How a learner's program is loaded and called."""

from __future__ import annotations

import pytest
import torch

from grader.subject import Crashed, Missing, Raised, TimedOut, Where
from grader.wall import procfs
from grader.wall.workers import Limits


def test_cells_share_one_namespace_and_a_failing_cell_stops_nothing(program):
    subject = program(["a = 2", "import torch\nb = nothing_of_the_kind\nc = 5", "def f(x):\n    return a * x + c"])
    assert subject.call("f", 10).value == 25
    (error,) = subject.load_report.errors
    assert (error.kind, error.where) == ("NameError", Where(2, 2))
    assert {"a", "c", "f"} <= set(subject.load_report.names)


def test_a_syntax_error_costs_its_cell_only(program):
    subject = program(["def broken(:\n    pass", "def f():\n    return 1"])
    assert subject.call("f").value == 1
    (error,) = subject.load_report.errors
    assert (error.kind, error.where) == ("SyntaxError", Where(1, 1))


def test_in_a_script_what_follows_a_failing_statement_still_counts(program):
    subject = program(
        """
        import torch, torch.nn.functional as F
        print(F.scaled_dot_product_attention(*[torch.ones(1, 1, 4, 4)] * 3))
        def f(): return 7
        """
    )
    assert subject.call("f").value == 7
    assert subject.load_report.errors[0].where == Where(None, 3)


def test_exit_and_interrupt_at_load_are_errors_like_others(program):
    subject = program("raise SystemExit(3)\nraise KeyboardInterrupt\ndef f(): return 1")
    assert subject.call("f").value == 1
    assert [e.kind for e in subject.load_report.errors] == ["SystemExit", "KeyboardInterrupt"]


def test_future_imports_hold_for_later_cells(program):
    subject = program(["from __future__ import annotations", "def f(x: Undefined) -> Undefined:\n    return x"])
    assert subject.call("f", 1).value == 1
    assert not subject.load_report.errors


def test_dataclasses_named_tuples_and_source_work(program):
    subject = program(
        """
        import inspect, typing
        from dataclasses import dataclass
        from typing import NamedTuple

        class State(NamedTuple):
            row_max: float
            row_sum: float

        @dataclass
        class Box:
            n: "int" = 3

        def named(): return State(1.0, 2.0)
        def boxed(): return Box().n
        def hints(): return [k for k in typing.get_type_hints(Box)]
        def source(): return inspect.getsource(boxed)
        """
    )
    assert subject.call("named").value == (1.0, 2.0)
    assert subject.call("boxed").value == 3
    assert subject.call("hints").value == ["n"]
    assert subject.call("source").value.startswith("def boxed")


def test_a_notebook_is_main_and_a_script_is_not(program):
    source = "def f():\n    return __name__\ng = 0\nif __name__ == '__main__':\n    g = 1\ndef h():\n    return g"
    assert program([source]).call("f").value == "__main__"
    assert program([source]).call("h").value == 1
    assert program(source).call("h").value == 0


def test_what_a_notebook_expects_of_its_kernel_is_there(program):
    subject = program(
        [
            """
            from grader import check
            import grader
            get_ipython().run_line_magic("timeit", "1")
            get_ipython().run_cell_magic("bash", "", "ls")
            get_ipython().system("pip install x")
            files = get_ipython().getoutput("ls")
            display(files)
            check("s2-forward")
            def f(): return files
            """
        ]
    )
    assert subject.call("f").value == []
    assert not subject.load_report.errors


def test_the_course_itself_cannot_be_imported(program):
    subject = program(
        """
        import importlib
        def f():
            found = []
            for name in ("kernels", "kernels.oracle", "stages", "solutions", "grader.judging.judge", "grader.checking"):
                try:
                    importlib.import_module(name)
                    found.append(name)
                except Exception: pass
            return found
        """
    )
    assert subject.call("f").value == []


def test_missing_names_and_names_of_the_wrong_kind(program):
    subject = program("softmax = 3\nclass attention: pass\ndef FlashAttentionV1(): pass")
    for call, found in (
        (lambda: subject.call("nothing"), None),
        (lambda: subject.call("softmax"), "int"),
        (lambda: subject.call("attention"), "class"),
        (lambda: subject.construct("FlashAttentionV1"), "function"),
    ):
        with pytest.raises(Missing) as missing:
            call()
        assert missing.value.found == found


def test_an_exception_says_what_and_where_in_the_submission(program):
    subject = program(["import torch", "def f(x):\n    return g(x)\n\ndef g(x):\n    return x @ x\n"])
    with pytest.raises(Raised) as raised:
        subject.call("f", torch.ones(2, 3))
    assert raised.value.kind == "RuntimeError"
    assert raised.value.where == Where(2, 5)


def test_exceptions_that_misbehave_when_shown(program):
    subject = program(
        """
        class Mute(Exception):
            def __str__(self): raise ValueError
        class Loud(Exception):
            def __str__(self): return "\\x1b[2J" + "x" * 10**6 + "\\ud800"
        def mute(): raise Mute
        def loud(): raise Loud
        """
    )
    with pytest.raises(Raised) as raised:
        subject.call("mute")
    assert (raised.value.kind, raised.value.text) == ("Mute", "")
    with pytest.raises(Raised) as raised:
        subject.call("loud")
    assert len(raised.value.text) <= 500
    assert "\x1b" not in raised.value.text


def test_inputs_arrive_with_strides_and_aliasing_and_changes_are_told(program):
    subject = program(
        """
        def f(q, k, v):
            shared = q.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()
            v.zero_()
            return shared, list(q.stride()), q.storage_offset()
        """
    )
    whole = torch.randn(8, 8)
    v = torch.randn(3)
    outcome = subject.call("f", whole.t()[1:], whole, v=v)
    assert outcome.value == (True, [1, 8], 1)
    assert outcome.changed == ("v",)
    assert v.abs().min() > 0


def test_modules_keep_their_state(program):
    subject = program(
        """
        from torch import nn
        class StandardAttention(nn.Module):
            def __init__(self, hidden_dim, num_heads=1):
                super().__init__()
                if hidden_dim % num_heads: raise ValueError("no")
                self.q_proj = nn.Linear(hidden_dim, hidden_dim)
            def forward(self, x): return self.q_proj(x)
        """
    )
    first, second = subject.construct("StandardAttention", 4), subject.construct("StandardAttention", 4, num_heads=2)
    state = subject.state(first)
    assert set(state) == {"q_proj.weight", "q_proj.bias"}
    subject.load_state(second, state)
    x = torch.randn(2, 4)
    expected = torch.nn.functional.linear(x, state["q_proj.weight"], state["q_proj.bias"])
    for handle in (first, second):
        outcome = subject.forward(handle, x)
        assert torch.equal(outcome.value, expected)
        assert outcome.differentiable == (True,)
    with pytest.raises(Raised, match="no"):
        subject.construct("StandardAttention", 5, num_heads=2)


def test_backward_through_an_autograd_function(program):
    subject = program(
        """
        import torch
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y, factor=2.0):
                ctx.save_for_backward(x, y); ctx.factor = factor
                total = x.sum(); ctx.mark_non_differentiable(total)
                return x * y * factor, total
            @staticmethod
            def backward(ctx, g, _):
                x, y = ctx.saved_tensors
                return g * y * ctx.factor, g * x * ctx.factor, None
        def plain(x, y): return x * y
        class Borrowed(torch.autograd.Function):
            apply = staticmethod(plain)
        """
    )
    x, y, g = torch.randn(3), torch.randn(3), torch.randn(3)
    outcome = subject.backward("F", [x, y, 3.0], [g, None], [0, 1])
    outputs, gradients = outcome.value
    assert outcome.differentiable == (True, False)
    assert torch.allclose(outputs[0], x * y * 3)
    assert torch.allclose(gradients[0], g * y * 3)
    assert torch.allclose(gradients[1], g * x * 3)
    for name, found in (("plain", "function"), ("Borrowed", "autograd.Function without backward")):
        with pytest.raises(Missing) as refused:
            subject.backward(name, [x, y], [g], [1])
        assert refused.value.found == found


def test_another_call_between_forward_and_backward(program):
    subject = program(
        """
        import torch
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = F.factor = factor
                return x * factor
            @staticmethod
            def backward(ctx, g):
                return g * ctx.factor, None
        class Forgetful(F):
            @staticmethod
            def backward(ctx, g):
                return g * F.factor, None
        """
    )
    x, g = torch.randn(3), torch.randn(3)
    for name, factor in (("F", 3.0), ("Forgetful", 5.0)):
        output, (gradient,) = subject.backward(name, [x, 3.0], [g], [0], between=(x, 5.0)).value
        assert torch.equal(output, x * 3)
        assert torch.equal(gradient, g * factor)


def test_the_observer_tells_products_and_the_largest_tensor(program):
    subject = program("def f(q, k):\n    return (q @ k.transpose(-1, -2)).sum(-1)")
    trace = subject.call("f", torch.randn(8, 4), torch.randn(16, 4), observe=True).trace
    assert trace.matmuls == {(1, 8, 4, 16)}
    assert trace.flops == 2 * 8 * 4 * 16
    assert (trace.largest, trace.largest_shape, trace.largest_op) == (128, (8, 16), "aten.mm")


def test_a_large_view_of_a_small_storage_is_too_large(program):
    subject = program("import torch\ndef f():\n    return torch.zeros(1).expand(1 << 40)\ndef g(): return 1")
    with pytest.raises(Crashed) as crashed:
        subject.call("f")
    assert crashed.value.reason == "too_large"
    assert subject.call("g").value == 1


def test_a_small_view_of_a_large_buffer_is_sent_small(program):
    subject = program("import torch\ndef f():\n    return torch.zeros(30_000_000)[5:7]")
    assert torch.equal(subject.call("f").value, torch.zeros(2))


def test_workers_start_alike(program):
    source = "import random, torch, numpy\ndef f(): return torch.rand(1).item(), random.random(), numpy.random.rand()"
    assert program(source).call("f").value == program(source).call("f").value


def test_threads_of_torch_may_be_used(program):
    subject = program("import torch\ndef f(q):\n    torch.set_num_threads(2)\n    return q @ q")
    q = torch.randn(400, 400)
    assert torch.allclose(subject.call("f", q).value, q @ q, atol=1e-3)


def test_a_starved_worker_gets_more_time(program, monkeypatch):
    """When others hold the processors, the clock alone says nothing about a program."""
    source = "import time\ndef f(seconds):\n    time.sleep(seconds)\n    return seconds"
    limits = Limits(load=10, call=0.5)
    with pytest.raises(TimedOut):
        program(source, limits=limits).call("f", 1.0)
    monkeypatch.setattr(procfs, "state", lambda pid: ("R", 0.0))
    assert program(source, limits=limits).call("f", 1.0).value == 1.0
    with pytest.raises(TimedOut):
        program(source, limits=limits).call("f", 3.0)
