from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.wall.workers import Limits, Template, WorkerSubject

Make = Callable[..., WorkerSubject]


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with Template() as running:
        running.start()
        yield running


@pytest.fixture
def program(template: Template) -> Iterator[Make]:
    """``program(source, bans=..., limits=...)``: a subject over a script, or over a list of notebook cells."""
    made: list[WorkerSubject] = []

    def make(source: str | list[str], bans: tuple[str, ...] = (), limits: Limits | None = None) -> WorkerSubject:
        if isinstance(source, str):
            cells: list[tuple[int | None, str, str]] = [(None, textwrap.dedent(source), "answer.py")]
        else:
            cells = [(n, textwrap.dedent(text), f"<cell {n}>") for n, text in enumerate(source, start=1)]
        made.append(WorkerSubject(template, cells, bans, limits or Limits()))
        return made[-1]

    yield make
    for subject in made:
        subject.close()


def let_through(folder: Path) -> None:
    """Other users may pass through the folders above, as far as they are ours."""
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)


def descendants(pid: int) -> list[int]:
    """Processes below ``pid``."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        children = [child for child, above in parents.items() if above == parent]
        found += children
        todo += children
    return found


def wait_until(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return true()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
