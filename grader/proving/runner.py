"""Grades the samples of the proofs, and looks for what a hostile one leaves behind."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from grader.course.catalog import Stage
from grader.judging.desk import Desk
from grader.reading import submission
from grader.wall.limits import Limits
from grader.worker.confine import FIRST_USER, USERS

HOSTILE = Limits(load=2.0, call=2.0, submission=20.0)
OPEN_FOLDERS = tuple(dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())))
GRACE = 5.0  # seconds that a killed process has to disappear


class LeftBehind(AssertionError):
    """A submission outlived its grading, in a process or a file."""


class Runner:
    """``with Runner() as runner``: one template for honest samples and one, with tighter limits, for hostile ones.

    Several threads may use it."""

    def __init__(self) -> None:
        self._honest, self._hostile = Desk(), Desk(HOSTILE)
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._honest.template.close()
        self._hostile.template.close()

    def grade(self, path: Path, stage: Stage, exercises: Collection[str] | None = None) -> dict[str, Any]:
        return self._honest.grade(submission.read(path), stage, exercises=exercises)

    def grade_hostile(self, path: Path, stage: Stage) -> dict[str, Any]:
        """As :meth:`grade`; raises :class:`LeftBehind` when a process or a file of it is still there afterwards."""
        with self._one_at_a_time:
            return self._grade_hostile(path, stage)

    def _grade_hostile(self, path: Path, stage: Stage) -> dict[str, Any]:
        program = submission.read(path)
        template = self._hostile.template.on(stage.device)
        template.start()
        pid, folder = template.place
        before = _files(folder)
        answer = self._hostile.grade(program, stage)
        if not _gone(pid, folder):
            raise LeftBehind(f"{path.name}: processes still run: {_workers(pid, folder)}")
        files = sorted(_files(folder) - before)
        if files:
            raise LeftBehind(f"{path.name}: left the files {', '.join(files)}")
        return answer


def _gone(template: int, folder: str) -> bool:
    deadline = time.monotonic() + GRACE
    while _workers(template, folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _workers(template: int, folder: str) -> list[int]:
    """Processes forked from the template (they share its command line, which names its folder) as workers are: in a
    session of their own."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and folder.encode() in Path("/proc", entry, "cmdline").read_bytes():
                session = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[3])
                if session != template:
                    found.append(int(entry))
        except OSError:
            continue  # it ended while we looked
    return found


def _files(folder: str) -> set[str]:
    """What lies in the template's folder, and what workers' users own where everybody may write."""
    found = {os.path.join(folder, name) for name in os.listdir(folder)}
    for place in OPEN_FOLDERS:
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        for entry in entries:
            try:
                owner = entry.stat(follow_symlinks=False).st_uid
            except OSError:
                continue
            if FIRST_USER <= owner < FIRST_USER + USERS:
                found.add(entry.path)
    return found
