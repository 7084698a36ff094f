"""Programs of tests/hostile that try to get out, with something to get at: what each brings back must be nothing.

Once with every wall of this machine, and once with Landlock and seccomp alone, as in a container."""

from __future__ import annotations

import ctypes
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import pytest
import torch
from outside import alive, let_through

from grader.paths import ROOT
from grader.subject import Crashed
from grader.wall import procfs
from grader.wall.workers import Limits, Template, WorkerSubject
from grader.worker import confine

HOSTILE = ROOT / "tests" / "hostile"
SECRET = "swordfish-of-the-judge"
LIMITS = Limits(load=20, call=20)
KEY = 4711

Open = Callable[..., WorkerSubject]


@pytest.fixture(scope="module", params=["every wall", "Landlock and seccomp"])
def template(request: pytest.FixtureRequest) -> Iterator[Template]:
    os.environ["FLASHDOJO_SECRET"] = SECRET
    walls = confine.LAYERS if request.param == "every wall" else ("process", "limits", "landlock", "seccomp")
    try:
        with Template(walls) as running:
            running.start()
            missing = [name for name in ("landlock", "seccomp") if not running.layers[name][0]]
            if missing:
                pytest.skip(f"not in force here: {missing}")
            yield running
    finally:
        del os.environ["FLASHDOJO_SECRET"]


@pytest.fixture
def start(template: Template) -> Iterator[Open]:
    made: list[WorkerSubject] = []

    def one(source: str, limits: Limits = LIMITS) -> WorkerSubject:
        made.append(WorkerSubject(template, [(None, source, "a.py")], limits=limits))
        return made[-1]

    yield one
    for subject in made:
        subject.close()


def hostile(name: str) -> str:
    return (HOSTILE / f"{name}.py").read_text("utf-8")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """An instructor's folder that everyone may read and write: the walls must do what modes do not."""
    folder = tmp_path / "course"
    for name, text in (("source/s2/s2.ipynb", "{}"), ("submitted/li/s2/s2.ipynb", "{}"), ("secret", SECRET)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with sqlite3.connect(folder / "gradebook.db") as book:
        book.execute("create table grade (points)")
    for path in (tmp_path, folder, *folder.rglob("*")):
        path.chmod(0o777)
    let_through(tmp_path)
    return folder


def state(folder: Path) -> dict[str, Any]:
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        seen = path.stat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_size, seen.st_mtime_ns, content, os.listxattr(path))
    return found


@pytest.mark.parametrize("name", ["course_folder_by_path", "marks_on_files"])
def test_the_course_folder_is_neither_read_nor_changed(start, course, name):
    files = [str(path) for path in course.rglob("*") if path.is_file()]
    files += [str(ROOT / "solutions" / "s1_standard_attention" / "softmax.py"), str(ROOT / "README.md")]
    mine = [file for file in files if file.startswith(str(course))]
    before = state(course)
    subject = start(hostile(name))
    assert subject.call("loot", {"files": mine if name == "marks_on_files" else files}).value == []
    assert state(course) == before


def test_nothing_is_seen_of_what_goes_on_elsewhere(start, course):
    folders = [str(course), str(course / "submitted"), "/tmp", "/", str(ROOT)]
    assert start(hostile("watches_folders")).call("loot", {"folders": folders}).value == []


def test_other_processes_are_not_looked_into(start, template):
    neighbour = start("def f(): return 1")
    assert neighbour.call("f").value == 1
    pids = [os.getpid(), template.place[0], neighbour._channel.pid]
    assert start(hostile("roots_of_processes")).call("loot", {"pids": pids}).value == []


def test_no_descriptor_is_left_open_and_none_leads_out(start):
    read, write = os.pipe()
    os.set_inheritable(read, True)
    os.set_inheritable(write, True)
    try:
        assert start(hostile("inherited_descriptors")).call("loot", {}).value == []
    finally:
        os.close(read)
        os.close(write)


def test_no_socket_leads_out(start, tmp_path):
    names = [f"\0flashdojo-{os.getpid()}", str(tmp_path / "s")]
    listening = [socket.socket(socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for mine, name in zip(listening, names, strict=True):
        mine.bind(name)
        mine.settimeout(0.2)
    listening[0].listen()
    os.chmod(names[1], 0o777)
    try:
        assert start(hostile("abstract_sockets")).call("loot", {"names": names}).value == []
        with pytest.raises(TimeoutError):
            listening[0].accept()
        with pytest.raises(TimeoutError):
            listening[1].recv(1)
    finally:
        for mine in listening:
            mine.close()


def test_no_memory_is_shared(start):
    libc = ctypes.CDLL(None)
    segment = libc.shmget(KEY, 4096, 0o1666)
    posix = shared_memory.SharedMemory(f"flashdojo-{os.getpid()}", create=True, size=4096)
    os.chmod(f"/dev/shm/flashdojo-{os.getpid()}", 0o666)
    try:
        assert start(hostile("shared_memory")).call("loot", {"key": KEY, "name": posix.name}).value == []
    finally:
        libc.shmctl(segment, 0, None)
        posix.close()
        posix.unlink()


def test_a_worker_finds_no_notes_of_the_one_before(start):
    source = hostile("notes_for_the_next")
    for _ in range(2):
        subject = start(source)
        assert subject.call("before", {}).value == []
        assert subject.call("softmax", torch.ones(3)).value[0] == 1
        subject.close()
    neighbour = start(source)
    assert neighbour.call("before", {}).value == []
    assert start(source).call("before", {}).value == [], "while the other still lives"


def test_the_folders_of_other_workers_are_closed(start):
    neighbour = start("open('answer', 'w').write('42')\ndef f(): return open('answer').read()")
    assert neighbour.call("f").value == "42"
    places = [neighbour._channel.child.scratch]
    assert start(hostile("folders_of_others")).call("loot", {"scratch": places}).value == []
    assert neighbour.call("f").value == "42"


def test_nobody_is_stopped(start, template):
    neighbour = start("def f(): return 1")
    assert neighbour.call("f").value == 1
    pids = [os.getpid(), template.place[0], neighbour._channel.pid]
    assert start(hostile("stops_the_judge")).call("loot", {"pids": pids}).value == []
    assert all(alive(pid) for pid in pids)
    assert neighbour.call("f").value == 1


def test_no_namespace_is_made_entered_or_undone(start):
    assert start(hostile("new_namespaces")).call("loot", {}).value == []


def test_another_architecture_is_no_way_in(start):
    subject = start(hostile("second_entrance"), Limits(load=3, call=3))
    with pytest.raises(Crashed) as crashed:
        subject.call("softmax", 1)
    assert crashed.value.reason == "signal"


def test_what_the_template_holds_is_no_secret(start):
    """Neither the judge's environment nor earlier submissions are in the memory that workers inherit."""
    earlier = start("answer = 'the-solution-' + 'of-li'\ndef f(): return 'the-text-of-li'")
    assert earlier.call("f").value == "the-text-of-li"
    subject = start(hostile("memory_of_the_template"))
    for marks in ([SECRET], ["the-text-of-li", "the-solution-of-li"]):
        assert subject.call("loot", {"marks": marks}).value == []


def test_files_without_names_count_too(start):
    subject = start(hostile("files_without_names"), Limits(load=10, call=10))
    with pytest.raises(Crashed) as crashed:
        subject.call("softmax", 1)
    assert crashed.value.reason == "too_large"


NAIVE = """
import torch
def naive(x): return (x @ x.transpose(-1, -2)).sum()
"""
IN_FILES = """
import os, torch
def in_files(x):
    total = torch.zeros(())
    files = []
    for n in range(4):
        with open(f"part{n}", "wb") as file:
            for rows in x[n * 1024 : (n + 1) * 1024].split(64):
                part = (rows @ x.transpose(-1, -2)).half()
                part.untyped_storage()._write_file(file, True, False, 1)
                total = total + part.float().sum()
        os.unlink(f"part{n}")
    return total
"""


def test_a_name_of_the_process_hides_no_memory(start):
    subject = start(hostile("named_like_memory") + NAIVE)
    assert subject.call("naive", torch.randn(4096, 16), memory=True).peak_bytes > 60 << 20
    assert procfs.memory(subject._channel.pid) is not None
    assert procfs.state(subject._channel.pid)[0] in "SR"


def test_what_is_written_to_files_in_a_call_is_memory(start):
    """A matrix of 4096 x 4096 in half precision, in files that are gone before anybody looks."""
    subject = start(IN_FILES, Limits(call=60, scratch=1 << 30))
    if procfs.written(os.getpid()) is None:
        pytest.skip("this kernel does not count what is written")
    assert subject.call("in_files", torch.randn(4096, 16), memory=True).peak_bytes > 32 << 20
