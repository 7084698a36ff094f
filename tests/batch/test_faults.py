"""Faults at random moments: the grader, a judge, a worker, a template or a Dask worker is killed, or the disk for
temporary files is full. After running the same command again every submission has one result, the undisturbed one.

All on the real command. Two in every run of the tests, fifty more in the slow ones."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_course import without_seconds
from test_dask import Cluster

from grader.course import catalog
from grader.paths import ROOT

# With a full disk this statement fails, and the result would say so.
WRITES = """
with open("big.bin", "wb") as file:
    file.write(b"x" * 3_000_000)
"""
SLOWLY = "import time\ntime.sleep(0.3)\n"
DISK = 24 << 20  # bytes of the disk that is filled; above what the grader asks to be free
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$TMPDIR" && shift && exec "$@"'


class Run:
    """One run of the command on the class, perhaps with temporary files on a small disk of its own."""

    def __init__(self, base: Path, out: Path, *options: str, disk: bool = False):
        self.temporary, self.disk = base / "tmp", disk
        self.temporary.mkdir(exist_ok=True)
        words = [sys.executable, "-m", "grader.cli", "grade", str(base / "class"), "--stage", "s1", "--out", str(out)]
        words += ["--json", *(options or ("--jobs", "2"))]
        if disk:
            words = ["unshare", "-m", "--propagation", "private", "sh", "-c", MOUNT, "sh", str(DISK), *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "FLASHDOJO_LANG": "en"}
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self) -> dict[str, Any] | None:
        """The document; None when it was killed, or failed over some submissions and said so."""
        said, complained = self.process.communicate(timeout=150)
        code = self.process.returncode
        if code == -signal.SIGKILL:
            return None
        assert b"Traceback" not in complained, complained.decode()
        if code == 3:
            assert {row["status"] for row in json.loads(said)["submissions"]} <= {"failed", "graded"}
            return None
        assert code == 1, complained.decode()
        return json.loads(said)


def below(pid: int) -> Iterator[tuple[int, str]]:
    """The descendants of a process, and what each is: a judge, a template, or a worker."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            with suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"spawn_main" in command:
                    yield child, "judge"
                elif b"template.py" in command:
                    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                    parent, session = int(fields[1]), int(fields[3])
                    forked = b"template.py" in Path(f"/proc/{parent}/cmdline").read_bytes()
                    yield child, "worker" if forked and session == child else "template"
                yield from below(child)


def kill(run: Run, what: str, chance: random.Random) -> bool:
    """Kill one of them; False when there was none within reach."""
    if what == "grader":
        run.process.kill()
        return True
    deadline = time.monotonic() + 20
    while run.process.poll() is None and time.monotonic() < deadline:
        found = [pid for pid, kind in below(run.process.pid) if kind == what]
        if found:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
            return True
        time.sleep(0.005)
    return False


def fill(run: Run, chance: random.Random) -> bool:
    """Fill its disk, if it has one of its own, and leave it so for the rest of the run or for a while."""
    if not run.disk:
        return False
    folder = Path(f"/proc/{run.process.pid}/root{run.temporary}")
    with suppress(OSError), open(folder / "filler", "wb") as file:
        for _ in range(DISK >> 16):
            file.write(b"x" * (1 << 16))
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.5, 3.0))
        with suppress(OSError):
            (folder / "filler").unlink()
    return True


FAULTS: dict[str, Callable[[Run, random.Random], bool]] = {
    "grader": lambda run, chance: kill(run, "grader", chance),
    "judge": lambda run, chance: kill(run, "judge", chance),
    "worker": lambda run, chance: kill(run, "worker", chance),
    "template": lambda run, chance: kill(run, "template", chance),
    "disk": fill,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("faults")
    folder = base / "class"
    folder.mkdir()
    exercises = catalog.load().stage("s1").exercises
    right = "\n\n".join(exercise.solution.read_text("utf-8") for exercise in exercises)
    (folder / "right.py").write_text(right + SLOWLY)
    (folder / "writes.py").write_text(right + WRITES)
    (folder / "writes too.py").write_text(right + WRITES + SLOWLY)
    (folder / "wrong.py").write_text(right.replace("amax(", "amin(") + SLOWLY)
    (folder / "only half.py").write_text(exercises[0].solution.read_text("utf-8"))
    (folder / "exits.py").write_text(right + "raise SystemExit\n")
    return base


@pytest.fixture(scope="module")
def undisturbed(base: Path) -> tuple[Any, float]:
    """The document, and how long it took."""
    start = time.monotonic()
    document = Run(base, base / "undisturbed").finish()
    assert document is not None
    scores = {row["student"]: row["score"] for row in document["submissions"]}
    assert (scores["right"], scores["writes"], scores["writes too"]) == (100, 100, 100)
    return without_seconds(document), time.monotonic() - start


@pytest.fixture(scope="module")
def cluster(base: Path) -> Iterator[Cluster]:
    (base / "dask").mkdir()
    cluster = Cluster(base / "dask")
    for _ in range(2):
        cluster.add_worker()
    yield cluster
    cluster.close()


def has_disk() -> bool:
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return shutil.which("unshare") is not None and subprocess.run(probe, capture_output=True).returncode == 0


def settles(base: Path, out: Path, undisturbed: Any, *options: str) -> None:
    """The same command once more has the undisturbed result, and leaves one for each submission."""
    document = Run(base, out, *options).finish()
    assert without_seconds(document) == undisturbed
    assert without_seconds(json.loads((out / "results.json").read_text())) == undisturbed
    records = [json.loads(file.read_text())["record"] for file in (out / ".cache").glob("??/*.json")]
    kept = [json.loads(record)["row"]["path"] for record in records]
    assert sorted(kept) == sorted(row["path"] for row in undisturbed["submissions"])


def suffer(what: str, seed: int, base: Path, out: Path, undisturbed: tuple[Any, float]) -> None:
    if what == "disk" and not has_disk():
        pytest.skip("no right to mount a small disk here")
    chance = random.Random(seed)
    expected, seconds = undisturbed
    run = Run(base, out, disk=what == "disk")
    time.sleep(chance.uniform(0.3, 0.9) * seconds)
    FAULTS[what](run, chance)
    document = run.finish()
    if document is not None:  # it got over it by itself
        assert without_seconds(document) == expected
    settles(base, out, expected)


def test_a_full_disk_and_a_killed_grader_cost_time_and_nothing_else(
    base: Path, undisturbed: tuple[Any, float], tmp_path: Path
) -> None:
    expected, seconds = undisturbed
    chance = random.Random(1)
    run = Run(base, tmp_path, disk=has_disk())
    time.sleep(0.4 * seconds)
    fill(run, chance)
    time.sleep(0.3 * seconds)
    kill(run, "grader", chance)
    run.finish()
    settles(base, tmp_path, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(42))
def test_forty_two_faults_on_one_machine(
    seed: int, base: Path, undisturbed: tuple[Any, float], tmp_path: Path
) -> None:
    suffer(list(FAULTS)[seed % len(FAULTS)], 100 + seed, base, tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_eight_dask_workers_die(
    seed: int, base: Path, undisturbed: tuple[Any, float], cluster: Cluster, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    expected, seconds = undisturbed
    run = Run(base, tmp_path, "--scheduler", cluster.address)
    time.sleep(chance.uniform(0.3, 0.9) * seconds)
    victim = cluster.workers.pop(chance.randrange(len(cluster.workers)))
    victim.kill()
    victim.wait()
    cluster.add_worker()
    document = run.finish()
    if document is not None:
        assert without_seconds(document) == expected
    settles(base, tmp_path, expected, "--scheduler", cluster.address)
