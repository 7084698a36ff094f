"""Memory of a call, measured from outside the process that makes it."""

from __future__ import annotations

import pytest
import torch
from outside import needs_proc

from grader.subject import Raised
from grader.wall import procfs
from grader.wall.workers import WorkerSubject

MB = 1 << 20
FORMS = """
import threading, torch
import numpy as np

def naive(q): return torch.softmax(q @ q.transpose(-1, -2), -1) @ q
def tiled(q, block=256):
    n = q.shape[-2]
    out = torch.empty_like(q)
    for i in range(0, n, block):
        qi = q[..., i : i + block, :]
        m = torch.full_like(qi[..., :1], float("-inf")); l = torch.zeros_like(m); acc = torch.zeros_like(qi)
        for j in range(0, n, block):
            kj = q[..., j : j + block, :]
            s = qi @ kj.transpose(-1, -2)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = (s - new).exp(); c = (m - new).exp()
            l = l * c + p.sum(-1, keepdim=True); acc = acc * c + p @ kj; m = new
        out[..., i : i + block, :] = acc / l
    return out
def thread(q):
    found = []
    worker = threading.Thread(target=lambda: found.append(naive(q)))
    worker.start(); worker.join()
    return found[0]
def in_numpy(q):
    a = q.numpy()[0, 0]
    s = a @ a.T
    p = np.exp(s - s.max(-1, keepdims=True))
    return torch.from_numpy((p / p.sum(-1, keepdims=True)) @ a)[None, None]
def unseen(q):
    with torch._C._DisableTorchDispatch(): return naive(q)
def mapped(q):
    n = q.shape[-2]
    s = torch.from_file("scores", shared=True, size=n * n // 4, dtype=torch.float32)
    return q * s.fill_(1.0)[0]
"""
FILES = """
import mmap, torch
with open("pages", "wb") as file:
    for _ in range(15): file.write(bytes(1 << 20))
maps = []
for _ in range(10):
    with open("pages", "rb") as file: maps.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
def touch(): return sum(m[i] for m in maps for i in range(0, len(m), 4096))
touch()
def naive(q):
    for m in maps: m.madvise(mmap.MADV_DONTNEED)
    s = q[0, 0] @ q[0, 0].t()
    torch.softmax(s, -1, out=s)
    out = s @ q
    del s
    touch()
    return out
"""
HOARD = """
import torch
scores = torch.empty(4096, 4096).fill_(0)
def naive(q):
    torch.matmul(q[0, 0], q[0, 0].t(), out=scores)
    torch.softmax(scores, -1, out=scores)
    return scores @ q
def nothing(q): return q
"""

HELD = {
    "freed in the call": """
import torch
scores = torch.empty(4096, 4096).fill_(0)
def f(q):
    global scores
    out = torch.softmax(torch.matmul(q[0, 0], q[0, 0].t(), out=scores), -1, out=scores) @ q
    del scores
    return out
""",
    "shared memory": """
import mmap, torch
scores = torch.frombuffer(mmap.mmap(-1, 1 << 26), dtype=torch.float32).view(4096, 4096).fill_(0)
def f(q): return torch.softmax(torch.matmul(q[0, 0], q[0, 0].t(), out=scores), -1, out=scores) @ q
""",
    "copies of a file's pages": """
import mmap, torch
with open("p", "wb") as file: file.write(bytes(15 << 20))
parts = []
for _ in range(5):
    with open("p", "rb") as file:
        m = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    parts.append(torch.frombuffer(m, dtype=torch.float32).view(-1, 4096).fill_(0))
def f(q):
    keys, out = q[0, 0], []
    for part, queries in zip(parts, keys.split(960)):
        scores = part[: len(queries)]
        out.append(torch.softmax(torch.matmul(queries, keys.t(), out=scores), -1, out=scores) @ keys)
    return torch.cat(out)[None, None]
""",
}


@pytest.fixture
def q() -> torch.Tensor:
    return torch.randn(1, 1, 4096, 16)


@needs_proc
def test_tiles_take_little_and_the_full_matrix_shows(program, q):
    subject = program(FORMS)
    tiled = subject.call("tiled", q, memory=True)
    assert tiled.peak_bytes < 4 * MB
    assert tiled.held_bytes < 8 * MB
    assert subject.call("naive", q, memory=True).peak_bytes > 100 * MB
    again = subject.call("tiled", q, memory=True)
    assert again.peak_bytes < 4 * MB
    assert again.held_bytes < 16 * MB
    assert torch.allclose(again.value, subject.call("naive", q).value, atol=1e-5)


@needs_proc
@pytest.mark.parametrize("way", ["thread", "in_numpy", "unseen", "mapped"])
def test_hiding_the_matrix_does_not_help(program, q, way):
    assert program(FORMS).call(way, q, memory=True).peak_bytes > 14 * MB


@needs_proc
def test_a_buffer_taken_at_load_is_held(program, q):
    outcome = program(HOARD).call("naive", q, memory=True)
    assert outcome.held_bytes + outcome.peak_bytes > 60 * MB
    assert program("def nothing(q): return q").call("nothing", q, memory=True).held_bytes < 4 * MB


@needs_proc
@pytest.mark.parametrize("way", HELD)
def test_what_is_held_and_used_counts(program, q, way):
    outcome = program(HELD[way]).call("f", q, memory=True)
    assert outcome.held_bytes > 55 * MB
    assert torch.allclose(outcome.value, torch.softmax(q @ q.transpose(-1, -2), -1) @ q, atol=1e-4)


@needs_proc
def test_held_memory_cannot_be_declared_free(program, q, template):
    if not template.layers["seccomp"][0]:
        pytest.skip("needs seccomp")
    source = "import mmap\nm = mmap.mmap(-1, 1 << 20)\ndef f(q, advice): m.madvise(advice)"
    for advice in (8, 20, 21):  # MADV_FREE, MADV_COLD, MADV_PAGEOUT
        with pytest.raises(Raised):
            program(source).call("f", q, advice)


@needs_proc
def test_an_import_that_lies_idle_does_not_count(program, q):
    outcome = program("import matplotlib.pyplot\n" + FORMS).call("tiled", q, memory=True)
    assert outcome.peak_bytes < 4 * MB
    assert outcome.held_bytes < 9 * MB


@needs_proc
def test_pages_of_files_given_up_in_the_call_make_no_room(program, q):
    assert program(FILES).call("naive", q, memory=True).peak_bytes > 40 * MB


@needs_proc
def test_memory_freed_before_the_call_is_no_hiding_place(program, q):
    source = FORMS + "\nblocks = [torch.empty(60_000).fill_(1) for _ in range(2000)]\ndel blocks\n"
    outcome = program(source).call("naive", q, memory=True)
    assert outcome.peak_bytes + outcome.held_bytes > 100 * MB


@needs_proc
def test_inputs_and_outputs_do_not_count(program):
    subject = program("def f(x): return x + 1")
    x = torch.randn(4 << 20)
    outcome = subject.call("f", x, memory=True)
    assert outcome.peak_bytes < 2 * MB
    assert torch.equal(outcome.value, x + 1)


def test_without_proc_memory_is_not_measured(program, monkeypatch):
    monkeypatch.setattr(procfs, "memory", lambda pid: None)
    outcome = program("def f(x): return x").call("f", torch.ones(3), memory=True)
    assert outcome.peak_bytes is None
    assert outcome.held_bytes is None


@needs_proc
def test_a_module_is_measured_as_in_inference(program):
    subject: WorkerSubject = program(
        """
        import torch
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.l = torch.nn.Linear(1000, 1000)
            def forward(self, x):
                for _ in range(20): x = self.l(x).exp().sub(1)
                return x
        """
    )
    handle = subject.construct("M")
    x = torch.zeros(1000, 1000)
    assert subject.forward(handle, x, memory=True).peak_bytes < 16 * MB
    assert subject.forward(handle, x).differentiable == (True,)
