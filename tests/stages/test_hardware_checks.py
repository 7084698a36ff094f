"""The checks on hardware from end to end: a kernel is there, and solutions and wrong answers meet it as a submission.

(That the solutions are like the emulated kernel: test_npu_stage.py.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import solutions

from grader import hardware, results
from grader.course import catalog
from grader.inputs import Secret
from grader.judging.judge import grade_program
from grader.live.device import device
from grader.live.subject import LiveSubject
from grader.reading.submission import Cell, Program
from grader.syntax import tree_of
from grader.text import Text
from grader.worker.names import soc_in
from kernels.ascend.backend import Backend, CpuReference

CHIP = "Ascend910B3"


class Reference(CpuReference):
    """A kernel that is right in every dtype and with every mask, after ``wait`` seconds."""

    name, wait = "a reference", 0.0

    def _forward(self, *args: Any) -> Any:
        time.sleep(self.wait)
        return super()._forward(*args)


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The document of one submission on a machine with this kernel; the check in question alone, and its needs."""

    def run(exercise_id: str, more: str = "", kernel: Backend | None = None, on_npu: bool = False) -> dict[str, Any]:
        found = (kernel or Reference(), Text(CHIP, CHIP))
        monkeypatch.setattr(hardware, "kernels_here", lambda: found)
        monkeypatch.setattr(results, "npu_here", lambda: CHIP)
        stage = catalog.load().stage(exercise_id.split("-")[0])
        source = f"{solutions(stage.id)}\n{more}"
        scope = ModuleType("submission").__dict__
        exec(compile(source, "<submission>", "exec"), scope)
        here = device(stage.device)
        here.is_real_npu = on_npu
        row = grade_program(
            Program(Path("a.py"), "0" * 64, [Cell(1, source, tree=tree_of(source))], stage.id),
            stage,
            student="ann",
            secret=Secret(),
            subject_factory=lambda bans: LiveSubject(scope, bans, device=here, soc=soc_in(bans)),
            exercises={exercise_id},
        )
        document = results.document([row], secret=Secret())
        results.validate(document)
        return document

    return run


def check_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    (row,) = document["submissions"]
    assert row["status"] == "graded", row["message"]
    (found,) = [check for exercise in row["exercises"] for check in exercise["checks"] if check["id"] == name]
    return found


EXERCISES = ("s2-forward", "s2-backward", "s3-forward", "s3-function", "s3-speed")
WRONG = {  # right wherever points are given before, wrong where the kernel looks
    "s2-forward": """
_right = flash_attention_forward
def flash_attention_forward(q, *args, **options):
    out, lse = _right(q, *args, **options)
    return (out * 1.05 if q.shape[2] == 200 else out), lse
""",
    "s2-backward": """
_right = flash_attention_backward
def flash_attention_backward(q, *args, **options):
    dq, dk, dv = _right(q, *args, **options)
    return dq, dk, (dv * 1.05 if q.shape[2] == 200 else dv)
""",
    "s3-forward": """
_right = npu_flash_attention
def npu_flash_attention(q, *args, **options):
    out, lse = _right(q, *args, **options)
    return out, (lse + 1.0 if q.dtype == torch.bfloat16 else lse)
""",
    "s3-function": """
_grads = cann_ops_transformer.flash_attn_grad
class _Operators:
    flash_attn = staticmethod(cann_ops_transformer.flash_attn)
    flash_attn_metadata = staticmethod(cann_ops_transformer.flash_attn_metadata)
    @staticmethod
    def flash_attn_grad(*args, **options):
        dq, *rest = _grads(*args, **options)
        return (dq * 1.05 if dq.dtype == torch.bfloat16 else dq), *rest
cann_ops_transformer = _Operators
""",
}


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solutions_pass_and_the_document_names_the_npu(graded, exercise):
    document = graded(exercise)
    assert check_of(document, f"{exercise}.hardware")["status"] == "passed"
    assert document["device"]["kind"] == "npu"
    assert document["device"]["npu"] == CHIP
    assert document["submissions"][0]["score"] == document["submissions"][0]["max_score"]


@pytest.mark.parametrize("exercise", WRONG)
def test_a_wrong_answer_fails_by_a_tensor_that_is_named(graded, exercise):
    found = check_of(graded(exercise, WRONG[exercise]), f"{exercise}.hardware")
    assert (found["status"], found["earned"]) == ("failed", 0)
    tensor = {"s2-forward": "attn_out", "s2-backward": "dv", "s3-forward": "softmax_lse", "s3-function": "dq"}[exercise]
    assert found["evidence"]["tensor"] == tensor
    assert "differs from the real kernel" in found["message"]["en"]
    assert "与真机算子的结果不符" in found["message"]["zh"]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_kernel_that_fails_costs_nobody_anything(graded, monkeypatch, exercise):
    class Failing(Reference):
        def _forward(self, *args: Any) -> Any:
            raise RuntimeError("aclnnFlashAttn failed: 561002")

        _backward = _forward

    document = graded(exercise, kernel=Failing())
    found = check_of(document, f"{exercise}.hardware")
    assert found["status"] == "not_measured"
    assert "aclnnFlashAttn failed: 561002" in found["message"]["en"]
    assert document["submissions"][0]["score"] == document["submissions"][0]["max_score"]


def test_a_slow_kernel_is_not_called_the_learners(graded):
    slow = Reference()
    slow.wait = 0.012
    found = check_of(graded("s3-speed", kernel=slow), "s3-speed.hardware")
    assert found["status"] == "failed"
    assert "its kernel, without your code, makes" in found["message"]["en"]
    assert 40 < found["evidence"]["got"] < 84


SLOW_MODULE = """
import time
_module = NpuFlashAttention.forward
def _slow(self, x):
    assert not torch.is_grad_enabled() and x.device.type == "npu" and x.shape == (2, 128, 768)
    time.sleep(0.012)
    return _module(self, x)
NpuFlashAttention.forward = _slow
"""


def test_on_the_npu_it_is_the_learners_module_that_is_timed(graded):
    """By the learner's own measure_speed. The emulated device stands in: it makes more than 100 calls a second or not,
    with 12 ms more it does not."""
    found = check_of(graded("s3-speed", SLOW_MODULE, on_npu=True), "s3-speed.hardware")
    assert found["status"] == "failed"
    assert "your NpuFlashAttention makes" in found["message"]["en"]
    assert "测的是你的 NpuFlashAttention" in found["message"]["zh"]
    assert 5 < found["evidence"]["got"] < 84


def test_without_a_module_there_is_nothing_to_time(graded):
    found = check_of(graded("s3-speed", "del NpuFlashAttention", on_npu=True), "s3-speed.hardware")
    assert found["status"] == "not_measured"
    assert "s3-module" in found["message"]["en"]
