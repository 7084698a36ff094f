"""A folder that a check hands over: the same bytes behind the wall and in the notebook, and gone afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grader.checking.folders import folder
from grader.live.subject import LiveSubject
from grader.wall.workers import WorkerSubject

READ = """
import os
def read(path, before=None):
    found = [os.path.join(here, name) for here, _, files in os.walk(path) for name in files]
    contents = {os.path.relpath(file, path): list(open(file, "rb").read()) for file in found}
    return contents, path, before and os.path.exists(before)
"""
FILES = {"a/b c.csv": "\ufeffx,y\r\n1,é\r\n", "empty": "", "raw.bin": bytes(range(256)) * 200}
BYTES = {name: list(text.encode() if isinstance(text, str) else text) for name, text in FILES.items()}


def test_a_worker_finds_it_and_it_is_gone_with_the_call(program: Callable[..., WorkerSubject]) -> None:
    subject = program(READ)
    contents, path, _ = subject.call("read", folder("host_1_ascend_pt", FILES)).value
    assert contents == BYTES
    assert Path(path).name == "host_1_ascend_pt"
    *_, there = subject.call("read", folder("PROF_1", {}), before=path).value
    assert there is False


def test_so_does_the_notebooks_check() -> None:
    namespace: dict[str, object] = {}
    exec(READ, namespace)
    contents, path, _ = LiveSubject(namespace).call("read", folder("host_1_ascend_pt", FILES)).value
    assert contents == BYTES
    assert not Path(path).exists()
