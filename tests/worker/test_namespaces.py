"""What namespaces alone hold, without Landlock and seccomp; and that the judge still sees and ends its workers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from outside import alive, wait_until

from grader.paths import ROOT
from grader.subject import Crashed
from grader.wall.workers import Limits, Template, WorkerSubject
from grader.worker import namespaces

SPY = """
import ctypes, os, signal, socket, sys, time
def attempt(action):
    try: return "done: " + str(action())[:200]
    except BaseException as error: return type(error).__name__
def listing(path): return sorted(os.listdir(path))
def read(path): return attempt(lambda: open(path, "rb").read(9))
def write(path): return attempt(lambda: open(path, "w").write("x"))
def home(): return os.getcwd()
def numbers(): return os.getpid(), os.getppid()
def kill(pid): return attempt(lambda: os.kill(pid, signal.SIGKILL))
def connect(port): return attempt(lambda: socket.create_connection(("127.0.0.1", port), 1))
def abstract(name): return attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + name))
def shared():
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.shmget(4711, 4096, 0o1666)
def orphan():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("orphan", "w").write("x")
            time.sleep(60)
        os._exit(0)
    while not os.path.exists("orphan"): time.sleep(0.01)
def remount(): return attempt(lambda: ctypes.CDLL(None).umount2(b"/proc", 2) + 1 and 1 / 0)
"""
Make = Callable[[], WorkerSubject]


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    with Template(walls=("process", "limits", "user", "namespaces")) as running:
        running.start()
        in_force, detail = running.layers["namespaces"]
        if not in_force:
            pytest.skip(f"no namespaces here: {detail}")
        yield running


@pytest.fixture
def kinds(template: Template) -> set[str]:
    return set(template.layers["namespaces"][1].split(", "))


@pytest.fixture
def make(template: Template) -> Iterator[Make]:
    made: list[WorkerSubject] = []

    def one() -> WorkerSubject:
        made.append(WorkerSubject(template, [(None, SPY, "a.py")]))
        return made[-1]

    yield one
    for subject in made:
        subject.close()


def test_no_file_has_a_name_but_those_that_python_needs(make, kinds, tmp_path):
    if "mnt" not in kinds:
        pytest.skip("no mount namespace")
    tmp_path.chmod(0o777)
    (tmp_path / "x").write_text("x")
    subject = make()
    for path in (ROOT / "README.md", ROOT / "solutions", "/etc/passwd", "/root/.profile", tmp_path / "x", "/dev/shm"):
        assert subject.call("read", str(path)).value == "FileNotFoundError", path
    assert subject.call("listing", "/proc").value == []
    for path in ("/x", "/tmp/x", "/proc/x", "/usr/lib/x", os.path.dirname(os.__file__) + "/x"):
        assert not subject.call("write", path).value.startswith("done"), path
    assert subject.call("write", "mine").value == "done: 1"


def test_the_folder_of_another_worker_has_no_name(make, kinds):
    if "mnt" not in kinds:
        pytest.skip("no mount namespace")
    first, second = make(), make()
    home = first.call("home").value
    first.call("write", "mine")
    assert Path(home, "mine").exists(), "the judge sees it"
    assert second.call("read", home + "/mine").value == "FileNotFoundError"
    assert second.call("listing", os.path.dirname(home)).value == [os.path.basename(second.call("home").value)]


def test_no_network_and_no_abstract_sockets(make, kinds):
    if "net" not in kinds:
        pytest.skip("no network namespace")
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        unix.bind(f"\0flashdojo-{os.getpid()}")
        unix.listen()
        subject = make()
        assert subject.call("connect", tcp.getsockname()[1]).value == "OSError"
        assert subject.call("abstract", f"flashdojo-{os.getpid()}").value == "ConnectionRefusedError"


def test_shared_memory_ends_with_the_worker(make, kinds):
    if "ipc" not in kinds:
        pytest.skip("no ipc namespace")
    first, second = make(), make()
    assert first.call("shared").value == second.call("shared").value == 0, "each has the first segment of its own"
    assert "4711" not in [line.split()[0] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]


def test_no_process_has_a_number_and_none_outlives_its_worker(make, kinds, template):
    if "pid" not in kinds:
        pytest.skip("no process namespace")
    subject, neighbour = make(), make()
    assert subject.call("numbers").value == (1, 0)
    for pid in (os.getpid(), template.place[0], neighbour.call("numbers") and neighbour._channel.pid):
        assert subject.call("kill", pid).value == "ProcessLookupError"
    worker = subject._channel.pid
    subject.call("orphan")
    group = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    assert group, "the orphan has come to the first process of its namespace"
    subject.close()
    assert wait_until(lambda: not any(alive(int(pid)) for pid in [worker, *group]))


def test_the_new_root_cannot_be_undone(make, kinds):
    if "mnt" not in kinds:
        pytest.skip("no mount namespace")
    subject = make()
    subject.call("remount")
    assert subject.call("listing", "/proc").value == []


def test_the_judge_still_sees_why_a_worker_ended(template):
    source = """
import ctypes, os
def crash(): ctypes.string_at(0)
def leave(): os._exit(7)
def spin():
    while True: pass
"""
    for name, reason, detail in (("crash", "signal", "SIGSEGV"), ("leave", "exit", "7"), ("spin", "cpu", "s")):
        with (
            WorkerSubject(template, [(None, source, "a.py")], limits=Limits(submission=1.0)) as subject,
            pytest.raises(Crashed) as crashed,
        ):
            subject.call(name)
        assert crashed.value.reason == reason
        assert detail in crashed.value.detail


@pytest.mark.parametrize("answer", ["!unshare user: Operation not permitted", "user", "OSError: x", ""])
def test_without_a_namespace_the_layer_is_not_in_force(answer):
    assert namespaces.kinds_in(answer) == (False, answer.removeprefix("!"))
