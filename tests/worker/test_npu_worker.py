"""Stage 3 behind the wall: the emulated NPU in a worker, and nothing of the reference with it."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace

import pytest
import torch

from grader.subject import Crashed, Missing, Provided, Raised
from grader.wall import forkserver
from grader.wall.workers import Template, WorkerSubject

ATTEND = """
    import torch, torch_npu, cann_ops_transformer

    def attend(q, k, v, scale):
        b, s1, n1, d = q.shape
        shared = dict(max_seqlen_q=s1, max_seqlen_kv=k.shape[1], mask_mode=0, win_left=-1, win_right=-1,
                      layout_q="BSND", layout_kv="BSND", layout_out="BSND")
        metadata = cann_ops_transformer.flash_attn_metadata(
            n1, k.shape[2], d, batch_size=b, is_grad_enabled=True, **shared)
        return cann_ops_transformer.flash_attn(
            q, k, v, metadata=metadata, softmax_scale=scale, return_softmax_lse=True, **shared)
"""


@pytest.fixture(scope="module")
def npu(template) -> Template:
    return template.on("npu")


@pytest.fixture
def program(npu):
    made = []

    def make(source: str, *asked: str) -> WorkerSubject:
        made.append(WorkerSubject(npu, [(None, textwrap.dedent(source), "answer.py")], asked))
        return made[-1]

    yield make
    for subject in made:
        subject.close()


def test_inputs_are_on_the_npu_and_results_come_back(program):
    subject = program("def double(x):\n    assert x.device.type == 'npu'\n    return x * 2, x.cpu(), str(x.device)")
    x = torch.randn(3, 4).t()
    outcome = subject.call("double", x)
    doubled, same, device = outcome.value
    assert torch.equal(doubled, x * 2)
    assert torch.equal(same, x)
    assert device == "npu:0"
    assert outcome.devices == ("npu:0", "cpu")
    assert outcome.changed == ()


def test_strides_and_shared_memory_stay_and_changed_inputs_show(program):
    subject = program("def write(x, y):\n    x.add_(1)\n    return y.sum(), x.stride()")
    both = torch.arange(12.0)
    outcome = subject.call("write", both[::2], both[1:3])
    assert outcome.value == (torch.tensor(4.0), (2,))  # y[1] is x[1]
    assert set(outcome.changed) == {"0", "1"}


def test_the_operators_of_the_npu_can_be_called_and_are_counted(program):
    subject = program(ATTEND)
    q, k, v = (torch.randn(1, 16, heads, 64).half() for heads in (4, 2, 2))
    outcome = subject.call("attend", q, k, v, 0.125, observe=True)
    out, lse = outcome.value
    each = (k.repeat_interleave(2, 2), v.repeat_interleave(2, 2))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), each[0].double()) * 0.125
    wanted = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), each[1].double())
    assert (out.double() - wanted).abs().max() < 2e-3
    assert (lse.double() - scores.logsumexp(-1)).abs().max() < 1e-3
    assert outcome.devices == ("npu:0", "npu:0")
    assert outcome.trace is not None
    assert outcome.trace.operators["cann_ops_transformer.flash_attn"] == 1
    assert outcome.trace.operators["cann_ops_transformer.flash_attn_metadata"] == 1
    assert outcome.trace.origins == ("cann_ops_transformer.flash_attn",) * 2


def test_what_an_operator_gave_is_known_in_any_layout_and_what_it_did_not_is_too(program):
    source = ATTEND + """
    def turned(q, k, v):
        out, lse = attend(q, k, v, 1.0)
        return out.transpose(1, 2).contiguous(), lse + 0.5
"""
    q, k, v = (torch.randn(1, 16, heads, 64).half() for heads in (4, 2, 2))
    trace = program(source).call("turned", q, k, v, observe=True).trace
    assert trace is not None
    assert trace.origins == ("cann_ops_transformer.flash_attn", "")


def test_gradients_flow_through_a_function_of_the_learners(program):
    source = """
        import torch
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.saved_tensors[0] * grad
    """
    x, grad = torch.randn(5), torch.randn(5)
    outcome = program(source).backward("Square", [x], [grad], [0], observe=True)
    assert torch.equal(outcome.value[1][0], 2 * x * grad)
    assert outcome.devices == ("npu:0", "npu:0")


def test_modules_are_moved_and_keep_their_state(program):
    source = "import torch\nclass M(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x)"
    subject = program(source)
    handle = subject.construct("M", 3, 2)
    state = {"weight": torch.randn(2, 3), "bias": torch.randn(2)}
    subject.load_state(handle, state)
    assert all(torch.equal(value, state[name]) for name, value in subject.state(handle).items())
    x = torch.randn(4, 3)
    assert torch.allclose(subject.forward(handle, x).value, x @ state["weight"].T + state["bias"], atol=1e-6)


def test_a_queued_kernel_returns_at_once_and_synchronize_waits(program):
    source = """
        import time, torch
        def time_of(fn, wait):
            start = time.perf_counter()
            fn()
            if wait:
                torch.npu.synchronize()
            return time.perf_counter() - start
    """
    subject = program(source)
    kernel = Provided("queued_kernel", {"seconds": 0.1})
    assert subject.call("time_of", kernel, False).value < 0.05
    assert subject.call("time_of", kernel, True).value >= 0.1


def test_an_exercise_may_ask_for_another_soc(program):
    source = ATTEND + "\n    def name():\n        return torch.npu.get_device_name(0)"
    assert "910B3" in program(source, "soc:Ascend910B3").call("name").value
    q = torch.zeros(1, 16, 1, 64).half()
    with pytest.raises(Raised, match=r"950"):
        program(source, "soc:Ascend910B3").call("attend", q, q, q, 1.0)


@pytest.mark.parametrize(
    "what", ["import kernels.flash", "import ops_transformer", "import kernels.ascend.backend", "import grader.judging"]
)
def test_the_reference_is_not_there(program, what):
    subject = program(f"def f():\n    {what}\n    return 1")
    with pytest.raises(Raised, match=r"ModuleNotFoundError|is not a package"):
        subject.call("f")


def test_the_first_cell_of_the_notebook_runs(program):
    subject = program("import kernels.ascend\nimport torch, torch_npu\ndef f(x):\n    return x + 1")
    assert not subject.load_report.errors
    assert torch.equal(subject.call("f", torch.ones(2)).value, torch.full((2,), 2.0))


def test_library_attention_stays_disabled(program):
    source = "import torch\ndef f(q):\n    return torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    with pytest.raises(Raised, match="library attention is not allowed"):
        program(source).call("f", torch.zeros(1, 1, 4, 8))


def test_stages_one_and_two_have_no_npu(template):
    cells = [(None, "def f():\n    import torch_npu\n    return 1", "answer.py")]
    with WorkerSubject(template, cells) as subject, pytest.raises(Raised, match="ModuleNotFoundError"):
        subject.call("f")


def test_a_callable_from_the_worker_is_no_answer(program):
    with pytest.raises(Crashed, match="garbage"):
        program("def f():\n    return lambda: 1").call("f")
    with pytest.raises(Missing):
        program("x = 1").call("f")


@pytest.mark.parametrize(
    "source",
    ["import torch\ntorch.utils.rename_privateuse1_backend('npu')", "raise ImportError('libhccl.so: no such file')"],
    ids=["works", "half installed"],
)
def test_on_an_ascend_machine_it_is_the_emulated_one_too(tmp_path, monkeypatch, source):
    """torch_npu lies where the judge found torch; on hardware that is where it is."""
    package = tmp_path / "packages" / "torch_npu"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text(source)
    monkeypatch.setattr(forkserver, "torch", SimpleNamespace(__file__=str(package.parent / "torch" / "__init__.py")))
    with Template() as template:
        answer = "import torch, torch_npu\ndef which(x): return str(x.device), torch_npu.__emulated__, x + 1"
        subject = WorkerSubject(template.on("npu"), [(None, answer, "answer.py")], ())
        device, emulated, more = subject.call("which", torch.ones(2)).value
        subject.close()
    assert (device, emulated, more.tolist()) == ("npu:0", True, [2, 2])


def test_the_operators_do_not_differentiate_themselves_where_that_is_the_exercise(program):
    source = textwrap.dedent(ATTEND) + textwrap.dedent(
        """
        def gradient(q, k, v):
            with torch.enable_grad():
                q = q.detach().requires_grad_()
                return torch.autograd.grad(attend(q, k, v, 0.125)[0].sum(), q)[0]
        """
    )
    q, k, v = (torch.randn(1, 8, 2, 64).half() for _ in range(3))
    assert program(source).call("gradient", q, k, v).value.shape == q.shape
    with pytest.raises(Raised, match="does not require grad"):
        program(source, "autograd").call("gradient", q, k, v)
