"""What others do to a run while it is under way: does each submission still get the one result that is its own?"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_course import LIMITS, RIGHT, without_seconds

from grader.batch import bench, local
from grader.batch.bench import Bench
from grader.batch.local import Assistant
from grader.batch.plan import Job, Plan, Record
from grader.batch.run import grade_paths

SLOW = RIGHT.replace("return 2 * x", "import time; time.sleep(0.8); return 2 * x")


@pytest.fixture
def plan(course: Path) -> Plan:
    return Plan(stage="s9", course=course, limits=LIMITS)


def job(source: str) -> Job:
    return Job(Path("a.py"), "a", source.encode())


def soon(action: Callable[[], bool]) -> threading.Thread:
    """Does it as soon as it can be done."""

    def work() -> None:
        while not action():
            time.sleep(0.01)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(child) for file in children for child in file.read_text().split()]
    return [one for child in direct for one in [child, *descendants(child)]]


def sessions_of_their_own(pid: int) -> list[int]:
    """The workers among the descendants: each leads a session, and so does the template, which is the first."""
    return [one for one in descendants(pid) if os.getsid(one) == one][1:]


def test_a_killed_worker_is_not_the_learners_fault(plan: Plan) -> None:
    with Bench(plan) as here:
        expected = here.grade(job(SLOW)).row
        assert expected["score"] == 7

        def kill() -> bool:
            workers = sessions_of_their_own(os.getpid())
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            return bool(workers)

        killer = soon(kill)
        assert without_seconds(here.grade(job(SLOW)).row) == without_seconds(expected)
        killer.join(1)
        assert not killer.is_alive()


def test_what_is_killed_every_time_is_told_so(plan: Plan) -> None:
    over = threading.Event()

    def kill() -> bool:
        for worker in sessions_of_their_own(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        return over.is_set()

    with Bench(plan) as here:
        here.grade(job("def double(x): return x"))
        killer = soon(kill)
        row = here.grade(job(SLOW)).row
        over.set()
        killer.join()
    assert (row["status"], row["score"]) == ("graded", 0)
    assert "SIGKILL" in row["exercises"][0]["checks"][0]["message"]["en"]


def test_a_killed_template_is_replaced(plan: Plan) -> None:
    with Bench(plan) as here:
        expected = here.grade(job(SLOW)).row
        template = here.desk.template.place[0]
        killer = threading.Timer(0.3, os.kill, (template, signal.SIGKILL))
        killer.start()
        assert without_seconds(here.grade(job(SLOW)).row) == without_seconds(expected)
        assert here.desk.template.place[0] != template


def test_a_full_disk_is_said_and_not_held_against_anybody(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    free = bench.shutil.disk_usage("/")._replace(free=1 << 20)
    with Bench(plan) as here:
        monkeypatch.setattr(bench, "PAUSE", 0.0)
        monkeypatch.setattr(bench.shutil, "disk_usage", lambda folder: free)
        row = here.grade(job(RIGHT)).row
        assert (row["status"], row["score"], row["max_score"]) == ("failed", 0, 7)
        assert "the disk for temporary files is full" in row["message"]["en"]
        monkeypatch.undo()
        assert here.grade(job(RIGHT)).row["score"] == 7


def test_an_assistant_that_dies_is_replaced_and_the_work_begun_anew(plan: Plan) -> None:
    with Assistant(plan) as assistant:
        expected = assistant.grade(job(SLOW)).row
        first = assistant._process.pid
        killer = threading.Timer(0.3, os.kill, (first, signal.SIGKILL))
        killer.start()
        assert without_seconds(assistant.grade(job(SLOW)).row) == without_seconds(expected)
        assert assistant._process.pid != first


def test_one_that_always_kills_its_judge_is_one_failed_entry(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ann", "bob", "cat"):
        (tmp_path / f"{name}.py").write_text(SLOW if name == "bob" else RIGHT)
    grade = Assistant.grade

    def watched(self: Assistant, job: Job) -> Record:
        over = threading.Event()

        def kill() -> bool:
            if self._process is not None and self._process.pid is not None and not over.is_set():
                self._process.kill()
            return over.is_set()

        killer = soon(kill) if job.student == "bob" else None
        try:
            return grade(self, job)
        finally:
            over.set()
            if killer is not None:
                killer.join()

    monkeypatch.setattr(Assistant, "grade", watched)
    rows = grade_paths([tmp_path], stage="s9", course=course, limits=LIMITS, jobs=2)["submissions"]
    assert [(row["student"], row["status"], row["score"]) for row in rows] == [
        ("ann", "graded", 7), ("bob", "failed", 0), ("cat", "graded", 7),
    ]  # fmt: skip
    assert f"died {local.ATTEMPTS} times over this one (out of memory?)" in rows[1]["message"]["en"]


def test_an_interruption_ends_every_process(course: Path, tmp_path: Path) -> None:
    for name in ("ann", "bob", "cat", "dan"):
        (tmp_path / f"{name}.py").write_text(SLOW)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        grade_paths([tmp_path], stage="s9", course=course, limits=LIMITS, jobs=2, on_progress=interrupt)
    assert time.monotonic() - start < 60
    deadline = time.monotonic() + 10
    while ours(descendants(os.getpid())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours(descendants(os.getpid())) == []


def ours(pids: list[int]) -> list[str]:
    """Judges and templates among these processes."""
    command = ["ps", "-o", "args=", "-p", ",".join(map(str, pids)) or "0"]
    listing = subprocess.run(command, capture_output=True, text=True)
    return [line for line in listing.stdout.splitlines() if "template.py" in line or "spawn_main" in line]
