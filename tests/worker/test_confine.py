"""The walls around a worker, tried from inside. Each test is skipped where its wall is not in force."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

import pytest
import torch

from grader.paths import ROOT
from grader.subject import Crashed, TimedOut
from grader.wall.forkserver import environment
from grader.wall.workers import Limits, Template, WorkerSubject
from grader.worker import confine

TRY = """
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def attempt(action):
    try:
        return ["done", str(action())[:100]]
    except BaseException as error:
        return [type(error).__name__, str(error)[:100]]

def system_call(number, *args):
    result = libc.syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def read(path): return attempt(lambda: open(path, "rb").read(100))
def write(path): return attempt(lambda: open(path, "w").write("x"))
def listing(path): return attempt(lambda: os.listdir(path))
"""


@pytest.fixture(scope="module")
def walls() -> dict[str, tuple[bool, str]]:
    return confine.probe()


@pytest.fixture
def need(walls):
    def skip_without(*layers: str) -> None:
        missing = [layer for layer in layers if not walls[layer][0]]
        if missing:
            pytest.skip(f"not in force here: {missing}")

    return skip_without


def test_the_probe_names_every_layer(walls):
    assert set(walls) == set(confine.LAYERS)
    assert walls["process"][0]
    assert walls["limits"][0]
    assert all(detail for _, detail in walls.values())


def test_the_template_is_in_force_as_probed(walls, template):
    assert template.layers == walls


def refused(answer: list[str]) -> bool:
    return answer[0] in ("PermissionError", "FileNotFoundError", "OSError", "BlockingIOError")


@pytest.mark.parametrize(
    "path",
    [
        "{root}/README.md", "{root}/grader/subject.py", "{root}/kernels/oracle.py", "{root}/grader/worker/wire.py",
        "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/1/status", "/proc/{judge}/environ",
        "/proc/{judge}/mem", "/proc/self/maps", "/dev/tty", "/dev/mem",
    ],
)  # fmt: skip
def test_files_outside_the_allow_list_cannot_be_read(program, need, path):
    need("landlock")
    assert refused(program(TRY).call("read", path.format(root=ROOT, judge=os.getpid())).value)


def test_files_can_be_written_in_the_scratch_only(program, need, tmp_path):
    need("landlock")
    subject = program(TRY + "\ndef home(): return os.getcwd(), os.environ['HOME'], os.environ['TMPDIR']\n")
    home, *others = subject.call("home").value
    assert others == [home, home]
    assert subject.call("write", home + "/mine").value[0] == "done"
    assert Path(home, "mine").exists()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    for path in ("/tmp/theirs", "/dev/shm/theirs", "/var/tmp/theirs", str(open_to_all / "x"), sys.prefix + "/x"):
        assert refused(subject.call("write", path).value), path
    for path in ("/", "/tmp", "/proc", "/root", str(ROOT), os.path.dirname(home)):
        assert refused(subject.call("listing", path).value), path
    subject.close()
    assert not os.path.exists(home)


def test_links_cannot_be_made(program, need):
    need("landlock")
    subject = program(
        TRY
        + """
def links(): return attempt(lambda: os.symlink("/etc", "x")), attempt(lambda: os.mkfifo("p"))
"""
    )
    assert all(refused(answer) for answer in subject.call("links").value)


def test_no_network(program, need):
    need("seccomp")
    received: list[bytes] = []
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        tcp.settimeout(0.3)
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.3)
        source = TRY + (
            """
def network(tcp, udp):
    found = [attempt(lambda: socket.create_connection(("127.0.0.1", tcp), 1)),
             attempt(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", udp))),
             attempt(lambda: socket.socketpair()), attempt(lambda: socket.socket(socket.AF_UNIX)),
             attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))]
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(3))
    found += [attempt(lambda: own.connect(("127.0.0.1", tcp))), attempt(lambda: own.bind(("127.0.0.1", 0))),
              attempt(own.listen)]
    return found
"""
        )
        answers = program(source).call("network", tcp.getsockname()[1], udp.getsockname()[1]).value

        def accept() -> None:
            with contextlib.suppress(TimeoutError):
                received.append(tcp.accept()[0].recv(1))
            with contextlib.suppress(TimeoutError):
                received.append(udp.recv(10))

        listener = threading.Thread(target=accept)
        listener.start()
        listener.join()
    assert all(refused(answer) for answer in answers), answers
    assert received == []


def test_no_processes(program, need):
    need("seccomp")
    source = (
        TRY
        + """
import subprocess, multiprocessing
def processes():
    return [attempt(os.fork), attempt(lambda: subprocess.run(["/bin/true"])),
            attempt(lambda: os.system("true") and 1/0), attempt(lambda: os.execv("/bin/true", ["true"])),
            attempt(lambda: os.posix_spawn("/bin/true", ["true"], {})),
            attempt(lambda: system_call(56, 17, 0, 0, 0, 0)),
            attempt(lambda: system_call(435, ctypes.create_string_buffer(88), 88)),
            attempt(lambda: multiprocessing.get_context("fork").Process(target=print).start())]
"""
    )
    answers = program(source).call("processes").value
    assert all(answer[0] != "done" for answer in answers), answers


def test_no_signals_to_others_and_no_tracing(program, need, template):
    need("seccomp")
    source = (
        TRY
        + """
def others(judge, template):
    return [attempt(lambda: os.kill(judge, 0)), attempt(lambda: os.kill(template, 9)), attempt(lambda: os.kill(-1, 9)),
            attempt(lambda: os.kill(0, 9)), attempt(lambda: os.killpg(template, 9)),
            attempt(lambda: os.pidfd_open(template)),
            attempt(lambda: system_call(101, 16, judge, 0, 0)), attempt(lambda: system_call(101, 0, 0, 0, 0)),
            attempt(lambda: system_call(310, judge, 0, 0, 0, 0, 0)), attempt(lambda: system_call(157, 1, 0, 0, 0, 0)),
            attempt(lambda: __import__("fcntl").fcntl(3, 8, judge)), attempt(lambda: os.setpriority(0, template, 19)),
            attempt(lambda: __import__("resource").prlimit(judge, 0, (1, 1)))]
def own(): return attempt(lambda: os.kill(os.getpid(), 0))
"""
    )
    subject = program(source)
    answers = subject.call("others", os.getpid(), template._process.pid).value
    assert all(answer[0] == "PermissionError" for answer in answers), answers
    assert subject.call("own").value[0] == "done"


def test_limits_cannot_be_raised(program):
    source = (
        TRY
        + """
import resource
def limits():
    names = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE")
    hard = [resource.getrlimit(getattr(resource, name))[1] for name in names]
    return hard, [attempt(lambda: resource.setrlimit(getattr(resource, name), (h + 10, h + 10)))
                  for name, h in zip(names, hard)]
"""
    )
    hard, answers = program(source).call("limits").value
    assert all(limit >= 0 for limit in hard)
    assert all(answer[0] in ("ValueError", "PermissionError") for answer in answers), answers


def test_the_worker_is_nobody(program, need):
    need("user")
    source = (
        TRY
        + """
def who():
    refused = attempt(lambda: os.setuid(0)), attempt(lambda: os.chown("/", 0, 0))
    return os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), *refused
"""
    )
    first, second = program(source), program(source)
    uid, effective, group, groups, root, chown = first.call("who").value
    assert uid == effective >= confine.FIRST_USER
    assert group == uid
    assert groups == []
    assert refused(root)
    assert refused(chown)
    assert second.call("who").value[0] != uid


def test_the_environment_of_the_judge_stays_with_the_judge(program, monkeypatch, template):
    monkeypatch.setenv("FLASHDOJO_SECRET", "swordfish")
    assert [name for name in environment() if name.startswith("FLASHDOJO")] == ["FLASHDOJO_NPU"]
    env = program(TRY + "\ndef env(): return dict(os.environ)").call("env").value
    assert "swordfish" not in str(env)
    assert set(env) <= {"HOME", "TMPDIR", "MPLCONFIGDIR", "MPLBACKEND", "PATH", "LANG"}
    assert b"FLASHDOJO_SECRET" not in Path(f"/proc/{template._process.pid}/environ").read_bytes()


def test_only_the_socket_is_open(program):
    source = (
        TRY
        + """
import stat
def descriptors():
    found = {}
    for n in range(256):
        try: found[n] = stat.S_IFMT(os.fstat(n).st_mode)
        except OSError: pass
    return found
"""
    )
    found = program(source).call("descriptors").value
    assert set(found) == {0, 1, 2, 3}


EVERYTHING = """
import torch
def f(x): return x * 2
def hang():
    while True: pass
def die():
    import os
    os._exit(3)
"""


@pytest.mark.parametrize("walls", [("landlock", "seccomp"), ("seccomp",), ()], ids=["same user", "seccomp", "none"])
def test_with_fewer_walls_everything_else_still_works(walls):
    with Template(walls=("process", "limits", *walls)) as template:
        subject = WorkerSubject(template, [(None, EVERYTHING, "a.py")], limits=Limits(call=0.5))
        x = torch.randn(2000)
        outcome = subject.call("f", x, memory=True)
        assert torch.equal(outcome.value, x * 2)
        assert outcome.peak_bytes is None or outcome.peak_bytes < 4 << 20
        assert outcome.peak_bytes is not None or not os.path.isdir("/proc/self")
        with pytest.raises(TimedOut):
            subject.call("hang")
        with pytest.raises(Crashed):
            subject.call("die")
        assert torch.equal(subject.call("f", x).value, x * 2)
        assert not template.layers["user"][0]
        subject.close()
