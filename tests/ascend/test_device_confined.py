"""The device in a worker of the grader: forked from a process that loaded it and forgot the way to the repository.

It is behind the walls, without a file of ours to read; whatever it needs must be there already.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest

from grader.wall.workers import Template, WorkerSubject

PROGRAM = """
import io
import torch, torch_npu
from torch import nn
import torch.nn.functional as F

def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(16), nn.Linear(16, 2)).npu()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=0.05), torch.amp.GradScaler("npu")
    x, y = torch.randn(32, 8, device="npu"), torch.randint(0, 2, (32,), device="npu")
    losses = []
    for _ in range(20):
        with torch.autocast("npu", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="npu")
    return losses[-1] < losses[0] / 2, str(loaded["0.weight"].device), torch.npu.memory_allocated() > 0

def mix():
    try:
        torch.ones(2, device="npu") + torch.ones(2)
    except RuntimeError as error:
        return str(error)

def refuse():
    try:
        torch.eye(2, device="npu").to_sparse()
    except NotImplementedError as error:
        return str(error)

def learn():
    torch_npu.npu.synchronize()
    return torch_npu.npu.get_device_name(), torch.Generator("npu").device.type, repr(torch.ones(1, device="npu"))

def many_operators():
    x = torch.randn(4, 4, device="npu", requires_grad=True)
    y = torch.linalg.svdvals(x).sum() + torch.fft.rfft(x).abs().sum() + F.interpolate(x[None, None], size=(8, 8)).sum()
    y = y + torch.einsum("ij,kj->ik", x, x).logsumexp(0).sum() + torch.func.vmap(torch.sum)(x).sum()
    y.backward()
    return bool(x.grad.isfinite().all())
"""


@pytest.fixture(scope="module")
def subject() -> Iterator[WorkerSubject]:
    with Template(device="npu") as template:
        made = WorkerSubject(template, [(None, textwrap.dedent(PROGRAM), "answer.py")])
        yield made
        made.close()


def test_backward_runs_in_the_worker(subject):
    assert subject.call("train").value == (True, "npu:0", True)
    assert subject.call("many_operators").value is True


def test_errors_are_as_clear_as_outside(subject):
    assert "argument other of operator aten::add.Tensor" in subject.call("mix").value
    assert "not supported by the emulated NPU" in subject.call("refuse").value


def test_what_a_program_learns_about_the_device(subject):
    name, generator, printed = subject.call("learn").value
    assert name.endswith(" (emulated)")
    assert generator == "npu"
    assert printed == "tensor([1.], device='npu:0')"
