"""Programs that want to harm: each ends in bounded time, leaves nothing, and does not touch its neighbours."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from outside import alive, descendants, needs_proc, wait_until

from grader.paths import ROOT
from grader.subject import Crashed, Missing, Raised, SubjectError, TimedOut, Where
from grader.wall.workers import Budget, Limits, Template, TemplateError, WorkerSubject

QUICK = Limits(load=1.0, call=1.0)

CALLS = {
    "loop": ("while True: pass", TimedOut),
    "loop in C": ("sum(iter(int, 1))", TimedOut),
    "loop that catches everything": (
        """
        while True:
            try:
                while True: pass
            except BaseException: pass
        """, TimedOut),
    "sleep": ("import time; time.sleep(1000)", TimedOut),
    "deaf to signals": (
        """
        import signal
        for n in range(1, 65):
            try: signal.signal(n, signal.SIG_IGN)
            except Exception: pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True: pass
        """, TimedOut),
    "catastrophic pattern": ("import re; re.match(r'(a+)+$', 'a' * 40 + 'b')", TimedOut),
    "endless __str__": ("class E(Exception): __str__ = lambda self: f(x)\nraise E()", (TimedOut, Raised)),
    "segfault": ("import ctypes; ctypes.string_at(0)", Crashed),
    "abort": ("import os; os.abort()", Crashed),
    "stack overflow in C": (
        """
        import sys
        sys.setrecursionlimit(10**9)
        class A: pass
        a = A()
        for _ in range(10**6):
            b = A(); b.a = a; a = b
        repr_ = lambda n: repr_(n + 1)
        repr_(0)
        """, (Crashed, Raised, TimedOut)),
    "deep recursion": ("return f(x)", (Raised, Crashed)),
    "os._exit": ("import os; os._exit(0)", Crashed),
    "exit": ("raise SystemExit(0)", Raised),
    "exit at exit": ("import atexit, os; atexit.register(os._exit, 0); raise SystemExit", Raised),
    "memory by torch": ("return torch.ones(1 << 40)", Raised),
    "memory in bytes": ("return bytearray(1 << 40)", (Raised, Crashed)),
    "memory step by step": ("a = []\nwhile True: a.append(bytearray(1 << 24))", (Raised, Crashed, TimedOut)),
    "memory in dicts": ("a = {}\nwhile True: a[len(a)] = 'x' * 10000", (Raised, Crashed, TimedOut)),
    "threads that stay": (
        """
        import threading
        def spin():
            while True: pass
        for _ in range(20): threading.Thread(target=spin).start()
        while True: pass
        """, TimedOut),
    "thread bomb": (
        """
        import threading, time
        while True: threading.Thread(target=time.sleep, args=(1000,)).start()
        """, (Raised, Crashed, TimedOut)),
    "fork bomb": (
        """
        import os
        while True: os.fork()
        """, Raised),
    "fork bomb that insists": (
        """
        import os
        while True:
            try: os.fork()
            except OSError: pass
        """, TimedOut),
    "flood of output": (
        """
        import sys, os
        while True:
            print("x" * 10000); os.write(1, b"y" * 10000); os.write(2, b"z" * 10000)
        """, TimedOut),
    "socket closed": ("import os; os.close(3)", Crashed),
    "everything closed": ("import os; os.closerange(0, 100)", Crashed),
    "socket closed, alive": ("import os, time; os.close(3); time.sleep(1000)", Crashed),
    "garbage on the socket": ("import os; os.write(3, b'x' * 100000)", Crashed),
    "trickle on the socket": (
        """
        import os, time
        os.write(3, b"FDJ1")
        while True:
            time.sleep(0.01); os.write(3, b"\\0")
        """, (TimedOut, Crashed)),
    "flood on the socket": ("import os\nwhile True: os.write(3, b'FDJ1' + b'\\xff' * 100000)", Crashed),
    "promise of a huge frame": ("import os, struct; os.write(3, struct.pack('<4sIQ', b'FDJ1', 100, 1 << 60))", Crashed),
    "nested json": (
        "import os, struct; b = b'[' * 10**6; os.write(3, struct.pack('<4sIQ', b'FDJ1', len(b), 0) + b)", Crashed),
    "descriptors to the judge": (
        """
        import socket, os
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(3))
        while True: socket.send_fds(s, [b"x" * 1000], [0, 1, 2])
        """, Crashed),
    "files without end": ("n = 0\nwhile True:\n    open(f'f{n}', 'w').close(); n += 1", (Crashed, Raised, TimedOut)),
    "large files": (
        "for n in range(1000):\n    with open(f'f{n}', 'wb') as file: file.write(bytes(1 << 23))",
        (Crashed, Raised, TimedOut)),
    "folders in folders": (
        """
        import os
        for _ in range(100000):
            os.mkdir("d"); os.chdir("d")
        """, (Crashed, Raised, TimedOut)),
    "unreadable files": (
        """
        import os
        os.mkdir("d"); open("d/f", "w").close(); os.chmod("d/f", 0); os.chmod("d", 0); os.chmod(".", 0)
        while True: pass
        """, (TimedOut, Crashed, Raised)),
    "resources raised": ("import resource; resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))", Raised),
    "cycle": ("a = []; a.append(a); return a", Crashed),
    "generator": ("return (i for i in range(3))", Crashed),
    "object with __reduce__": ("class R:\n    def __reduce__(self): return (exec, ('1/0',))\nreturn R()", Crashed),
    "huge tensor": ("return torch.zeros(1).expand(1 << 50)", Crashed),
    "large tensor": ("return torch.zeros(1 << 26)", Crashed),
    "many tensors": ("return [torch.zeros(1 << 20)] * 3 + [torch.zeros(1 << 22) for _ in range(5)]", Crashed),
    "long list": ("return list(range(10**6))", (Crashed, TimedOut)),
    "long string": ("return 'x' * 10**8", Crashed),
    "huge integer": ("return 10 ** 10000", Crashed),
    "subclass": ("return x.as_subclass(type('S', (torch.Tensor,), {}))", Crashed),
    "lying class": ("class L:\n    __class__ = torch.Tensor\nreturn L()", (Crashed, Raised)),
    "lazy tensor": (
        """
        class L(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                while True: pass
        return torch.ones(3).as_subclass(L)
        """, (Crashed, TimedOut)),
    "meta tensor": ("return x.to('meta')", Crashed),
    "own stack shown": ("import sys; sys.setrecursionlimit(50); return f(x)", (Raised, Crashed)),
    "no recursion left": ("import sys; sys.setrecursionlimit(30); return x.no_such", (Raised, Crashed)),
    "kernel attention keys": ("raise type('E', (BaseException,), {})('out')", Raised),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_hostile_calls(program, template, name):
    body, expected = CALLS[name]
    source = "import torch\nok = lambda x: x + 1\ndef f(x):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    subject: WorkerSubject = program(source, limits=QUICK)
    x = torch.ones(3)
    assert subject.call("ok", x).value[0] == 2
    scratch = subject._channel.child.scratch
    start = time.monotonic()
    with pytest.raises(expected):
        subject.call("f", x)
    assert time.monotonic() - start < 8.0
    assert subject.call("ok", x).value[0] == 2, "the next call works again"
    subject.close()
    assert not os.path.exists(scratch)
    check_clean(template)


@pytest.mark.parametrize("kind", ["list", "tuple"])
def test_a_container_that_lies_about_its_items_is_taken_at_its_content(program, kind):
    source = f"""
        class L({kind}):
            def __iter__(self):
                return iter(int, 1)
        def f(x):
            return L([1, L([x])])
    """
    x = torch.ones(3)
    one, (same,) = program(source, limits=QUICK).call("f", x).value
    assert one == 1
    assert torch.equal(same, x)


def check_clean(template: Template) -> None:
    """No worker is left, and no folder of one."""
    root = template._process.pid
    profiles = len(template._controls) - 1
    assert wait_until(lambda: len([pid for pid in descendants(root) if alive(pid)]) <= profiles)
    assert os.listdir(template._folder) == []


LOADS = {
    "loop": ("while True: pass", TimedOut),
    "crash": ("import ctypes; ctypes.string_at(0)", Crashed),
    "exit": ("import os; os._exit(0)", Crashed),
    "memory": ("a = []\nwhile True: a.append(bytearray(1 << 24))", (TimedOut, Crashed, Missing)),
    "threads": (
        "import threading, time\nfor _ in range(10): threading.Thread(target=time.sleep, args=(99,)).start()", Missing),
    "answers in advance": (
        "import os, struct, json\n"
        "b = json.dumps({'head': {'ok': True}, 'body': 7, 'tensors': [], 'storages': []}).encode()\n"
        "m = struct.pack('<4sIQ', b'FDJ1', len(b), 0) + b\nos.write(3, m * 20)", (Crashed, Missing)),
    "deep source": ("x = " + "(" * 5000 + ")" * 5000, Missing),
    "deep expression": ("x = " + "-" * 100_000 + "1", (Missing, Crashed)),
    "null bytes": ("x = 1\0", Missing),
    "surrogates": ("x = '\\ud800'", Missing),
    "name games": ("import sys, builtins\nsys.modules.clear()\nvars(builtins).clear()", SubjectError),
    "namespace gone": ("globals().clear()", Missing),
    "hooks": (
        "import sys, builtins, linecache\nsys.settrace(lambda *a: 1/0)\nbuiltins.isinstance = lambda *a: True\n"
        "linecache.cache.clear()",
        SubjectError),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_hostile_loads(program, template, name):
    source, expected = LOADS[name]
    subject = program(source, limits=QUICK)
    start = time.monotonic()
    with pytest.raises(expected):
        subject.call("f", 1)
    assert time.monotonic() - start < 8.0
    subject.close()
    check_clean(template)


def test_an_endless_loop_at_load_costs_one_limit(program):
    subject = program("import time\nwhile True: time.sleep(0.01)", limits=QUICK)
    start = time.monotonic()
    for _ in range(5):
        with pytest.raises(TimedOut) as late:
            subject.call("f", 1)
    assert time.monotonic() - start < 2.0
    assert late.value.where == Where(None, 2)
    assert late.value.seconds == 1.0


def test_a_time_out_says_where(program):
    subject = program(["def f(x):\n    return g(x)", "def g(x):\n    while x:\n        y = x\n"], limits=QUICK)
    with pytest.raises(TimedOut) as late:
        subject.call("f", 1)
    assert late.value.where == Where(2, 2)


NESTED = """
def step(x):
    for i in range(3):
        x = x + i
    return x

def f(x):
    for tile in range(4):
        while True:
            for part in range(5):
                x = step(x)
"""


@pytest.mark.parametrize("patience", [0.5, 0.61, 0.77])
def test_a_time_out_names_the_same_loop_whenever_the_clock_rings(program, patience):
    subject = program(NESTED, limits=Limits(load=10, call=patience))
    with pytest.raises(TimedOut) as late:
        subject.call("f", 1)
    assert late.value.where == Where(None, 9)


def test_cpu_time_is_counted_over_all_workers_of_a_submission(template):
    budget = Budget(1.5)
    limits = Limits(load=10, call=10, submission=1.5)
    cells = [(None, "def f():\n    while True: pass\ndef g(): return 1", "a.py")]
    first = WorkerSubject(template, cells, limits=limits, budget=budget)
    second = WorkerSubject(template, cells, ("softmax",), limits, budget)
    assert second.call("g").value == 1
    with pytest.raises(Crashed) as crashed:
        first.call("f")
    assert crashed.value.reason == "cpu"
    for subject in (first, second):
        with pytest.raises(Crashed) as crashed:
            subject.call("g")
        assert crashed.value.reason == "cpu"
        subject.close()


def test_reasons_of_crashes(program):
    subject = program(
        """
        import ctypes, os, sys
        def segfault(): ctypes.string_at(0)
        def leave(): os._exit(7)
        def loud(): os.write(3, b"GET / HTTP/1.1 and so on")
        """
    )
    expected = (("segfault", "signal", "SIGSEGV"), ("leave", "exit", "7"), ("loud", "garbage", "not a"))
    for name, reason, detail in expected:
        with pytest.raises(Crashed) as crashed:
            subject.call(name)
        assert crashed.value.reason == reason
        assert detail in crashed.value.detail


@needs_proc
def test_memory_is_watched_from_outside(template):
    """Memory that the limit on address space does not see early: many small pieces, in a worker with a low limit."""
    limits = Limits(memory=200 << 20)
    source = "import mmap\ndef f():\n    a = []\n    while True:\n        a.append(b'x' * 100_000)"
    subject = WorkerSubject(template, [(None, source, "a.py")], limits=limits)
    with pytest.raises((Crashed, Raised)) as ended:
        subject.call("f")
    assert ended.value.kind == "MemoryError" if isinstance(ended.value, Raised) else ended.value.reason == "memory"
    subject.close()


def test_an_object_dies_with_its_worker(program):
    subject = program("import os\nclass M:\n    def __call__(self): os._exit(1)\ndef f(): return 1")
    handle = subject.construct("M")
    with pytest.raises(Crashed):
        subject.forward(handle)
    assert subject.call("f").value == 1
    with pytest.raises(Crashed):
        subject.forward(handle)


PATCH = """
import sys, torch
def f(x): return x * 0
for name in list(sys.modules):
    module = sys.modules[name]
    if "serve" in name or "wire" in name:
        for key, value in list(vars(module).items()):
            if callable(value):
                try: setattr(module, key, lambda *a, **k: 1/0)
                except Exception: pass
"""
FORGE = """
import sys, torch
serve = sys.modules["flashdojo_worker.serve"]
original = serve.Worker._run
def forged(self, frame, function, args, kwargs, outputs=None):
    head, value = original(self, frame, function, args, kwargs, outputs)
    head |= {"seconds": -1e9, "trace": {"largest": -5, "matmuls": "lots", "operators": [1]}, "digests": 3,
             "differentiable": {"a": 1}, "score": 100, "peak_bytes": 0}
    return head, torch.full((2, 2), 7.0)
serve.Worker._run = forged
def f(x): return x
"""


def test_a_patched_worker_harms_itself_only(program):
    with pytest.raises(SubjectError):
        program(PATCH, limits=QUICK).call("f", torch.ones(2))
    assert program("def f(x): return x").call("f", 3).value == 3


def test_a_forged_answer_is_only_a_wrong_value(program):
    outcome = program(FORGE).call("f", torch.ones(2), observe=True)
    assert torch.equal(outcome.value, torch.full((2, 2), 7.0))
    assert outcome.changed == ("0",)
    assert outcome.differentiable == ()
    assert (outcome.seconds, outcome.trace.largest, outcome.trace.matmuls) == (0.0, 0, set())


@needs_proc
def test_memory_cannot_be_forged(program):
    source = FORGE.replace("return head, torch.full((2, 2), 7.0)", "return head, value").replace(
        "def f(x): return x", "def f(x): return (x @ x.transpose(-1, -2)).sum()"
    )
    assert program(source).call("f", torch.randn(4096, 16), memory=True).peak_bytes > 60 << 20


def test_the_secret_and_the_neighbours_are_out_of_reach(program, template, monkeypatch):
    monkeypatch.setenv("FLASHDOJO_SECRET", "swordfish")
    spy = """
import os
def look(pids):
    found = []
    for pid in pids:
        for name in ("environ", "mem", "maps", "cmdline", "fd", "cwd", "root", "status"):
            path = f"/proc/{pid}/{name}"
            for action in (lambda: open(path, "rb").read(10), lambda: os.listdir(path), lambda: os.readlink(path),
                           lambda: open(path, "wb")):
                try:
                    action(); found.append(path)
                except OSError: pass
    return found
def kill(pids):
    found = []
    for pid in set(pids) - {os.getpid()}:  # in a namespace of its own it is itself the first process
        for number in (0, 9, 15, 19):
            try: os.kill(pid, number); found.append(pid)
            except OSError: pass
    return found
"""
    if not (template.layers["landlock"][0] and template.layers["seccomp"][0]):
        pytest.skip("needs Landlock and seccomp")
    neighbour = program("def f(x): return x")
    assert neighbour.call("f", 1).value == 1
    pids = [os.getpid(), template._process.pid, neighbour._channel.pid, 1]
    subject = program(spy)
    assert subject.call("look", pids).value == []
    assert subject.call("kill", pids).value == []
    assert neighbour.call("f", 2).value == 2


def test_the_template_comes_back_when_it_dies():
    with Template() as template:
        subject = WorkerSubject(template, [(None, "def f(x): return x", "a.py")])
        assert subject.call("f", 1).value == 1
        folder = template._folder
        template._process.kill()
        template._process.wait()
        with pytest.raises(TemplateError):
            subject.call("f", 1)
        assert subject.call("f", 3).value == 3
        subject.close()
        assert template._folder != folder
        assert not os.path.exists(folder)
    assert not os.path.exists(template._folder)


def test_nothing_survives_the_judge():
    """The judge is killed in the middle of a call: template, worker and folder go too."""
    script = """
import sys, threading
from grader.wall.workers import *
template = Template(); template.start()
plain = WorkerSubject(template, [(None, "def f():\\n    open('file', 'w')\\n    while True: pass", "a.py")])
banned = WorkerSubject(template, plain.cells, ("softmax",))
for subject in (plain, banned):
    subject.load_report
print(template._process.pid, plain._channel.pid, banned._channel.pid, template._folder, flush=True)
threading.Thread(target=banned.call, args=("f",), daemon=True).start()
plain.call("f")
"""
    judge = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    words = judge.stdout.readline().split()
    pids, folder = [int(word) for word in words[:3]], words[3]
    assert all(alive(pid) for pid in pids)
    time.sleep(0.2)
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in pids), 10)
    assert wait_until(lambda: not os.path.exists(folder))


def test_closing_leaves_nothing():
    template = Template()
    subject = WorkerSubject(template, [(None, "open('x', 'w').write('y')\ndef f(): return 1", "a.py")])
    assert subject.call("f").value == 1
    pids = [template._process.pid, subject._channel.pid]
    assert (Path(subject._channel.child.scratch) / "x").exists()
    template.close()
    assert not any(alive(pid) for pid in pids)
    assert not os.path.exists(template._folder)
    subject.close()


def test_a_hostile_neighbour_changes_nothing(template):
    """Results beside a memory bomb and a loop are those without them."""
    good = [(None, "import torch\ndef f(x): return torch.softmax(x, -1)", "good.py")]
    bomb = "import torch\ndef f(x):\n    a = []\n    while True: a.append(torch.ones(1 << 22))"
    bad = [(None, bomb, "bad.py")]
    x = torch.randn(50, 50)
    with WorkerSubject(template, good) as honest, WorkerSubject(template, bad, limits=QUICK) as hostile:
        before = honest.call("f", x).value
        with pytest.raises(SubjectError):
            hostile.call("f", x)
        assert torch.equal(honest.call("f", x).value, before)
