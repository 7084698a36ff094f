"""The same class on a real Dask cluster on this machine: the same document, also when a worker dies."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_course import LIMITS, RIGHT, without_seconds

from grader.batch.plan import Lost
from grader.batch.run import grade_paths
from grader.inputs import Secret
from grader.judging.grade import Refused
from grader.paths import ROOT

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

from grader.batch import cluster  # noqa: E402


class Cluster:
    """A scheduler and workers, each a process, on this machine only."""

    def __init__(self, scratch: Path, clone: Path = ROOT):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.scratch, self.clone = scratch, clone
        self.workers: list[subprocess.Popen[bytes]] = []
        port = self.address.rsplit(":", 1)[1]
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                cluster._knock(self.address)
                return
            except OSError:
                time.sleep(0.1)

    def add_worker(self) -> None:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.scratch)]
        self.workers.append(self._start("worker", self.address, "--host", "127.0.0.1", *options))

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(self.clone)}
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words], env=environment, cwd=self.scratch, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("dask"))
    running.add_worker()
    yield running
    running.close()


def test_the_document_is_the_same_as_here(running: Cluster, course: Path, folder: Path) -> None:
    options: dict[str, Any] = {"stage": "s9", "course": course, "limits": LIMITS, "secret": Secret(b"k")}
    here = grade_paths([folder], jobs=1, **options)
    there = grade_paths([folder], scheduler=running.address, **options)
    assert without_seconds(there) == without_seconds(here)
    assert there["device"]["isolation"] == here["device"]["isolation"]


def test_the_work_of_a_worker_that_dies_is_done_by_another(running: Cluster, course: Path, tmp_path: Path) -> None:
    running.add_worker()
    for number in range(6):
        (tmp_path / f"student{number}.py").write_text(RIGHT + "import time\ntime.sleep(0.5)\n")
    seen: list[int] = []

    def kill(done: int, total: int, row: dict[str, Any]) -> None:
        seen.append(done)
        if done == 1:
            running.workers.pop(0).send_signal(signal.SIGKILL)

    document = grade_paths([tmp_path], stage="s9", course=course, scheduler=running.address, on_progress=kill)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert [row["score"] for row in document["submissions"]] == [7] * 6


def test_a_worker_of_another_version_is_refused(tmp_path: Path, folder: Path) -> None:
    for name in ("grader", "kernels", "stages"):
        shutil.copytree(ROOT / name, tmp_path / "clone" / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "clone" / "kernels" / "__init__.py").open("a") as file:
        file.write("# newer\n")
    other = Cluster(tmp_path, tmp_path / "clone")
    other.add_worker()
    try:
        with pytest.raises(Refused, match=r"the Dask worker tcp://.* is not of the same version \(kernels"):
            grade_paths([folder / "right.py"], stage="s1", scheduler=other.address)
    finally:
        other.close()


def test_a_scheduler_without_workers_is_said(
    tmp_path: Path, course: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 5.0)
    empty = Cluster(tmp_path)
    try:
        with pytest.raises(Refused, match="has no workers"):
            grade_paths([folder], stage="s9", course=course, scheduler=empty.address)
    finally:
        empty.close()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "ftp://127.0.0.1:9", ""])
def test_an_unreachable_scheduler_is_said(
    address: str, course: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 1.0)
    with pytest.raises(Refused, match="cannot be reached") as refused:
        grade_paths([folder], stage="s9", course=course, scheduler=address)
    assert "\n" not in refused.value.message.en


@pytest.mark.slow
def test_a_scheduler_that_goes_leaves_what_is_done(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "class").mkdir()
    for number in range(4):
        (tmp_path / "class" / f"student{number}.py").write_text(RIGHT + "import time\ntime.sleep(0.5)\n")
    short = Cluster(tmp_path)
    short.add_worker()
    with cluster._connected(short.address) as client:
        client.wait_for_workers(1, timeout=30)
    options: dict[str, Any] = {"stage": "s9", "course": course, "cache": tmp_path / "kept"}

    def kill(done: int, total: int, row: dict[str, Any]) -> None:
        short.scheduler.kill()

    try:
        monkeypatch.setattr(cluster, "CONNECT", 5.0)
        with pytest.raises(Lost, match="What is done is kept"):
            grade_paths([tmp_path / "class"], scheduler=short.address, on_progress=kill, **options)
    finally:
        short.close()
    assert len(list((tmp_path / "kept").rglob("*.json"))) >= 1
    assert [row["score"] for row in grade_paths([tmp_path / "class"], **options)["submissions"]] == [7] * 4
