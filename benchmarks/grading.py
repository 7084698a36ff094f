"""How long a learner waits for ``check`` and an instructor for a class, the latter beside nbgrader's own autograde.

    .venv/bin/python -m benchmarks.grading [--peer]

``--peer`` also runs plain nbgrader (asserts in the notebook, torch imported) in a scratch course, interleaved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from grader import paths
from grader.course import catalog
from grader.judging.judge import judge_exercise
from grader.live.subject import LiveSubject
from grader.reading import submission
from grader.threads import one_thread

ROUNDS = 9


def stage_source(stage: str) -> str:
    """All solutions of a stage as one program."""
    exercises = catalog.load().stage(stage).exercises
    return "\n\n".join(exercise.solution.read_text(encoding="utf-8") for exercise in exercises)


def live_seconds(scope: dict[str, Any], exercise: str) -> tuple[float, float]:
    """(seconds of one warm ``check(exercise)``, points it gave)."""
    chosen = catalog.load().exercise(exercise)
    start = time.perf_counter()
    with one_thread():
        row = judge_exercise(chosen, LiveSubject(scope))
    return time.perf_counter() - start, row["score"]


def instant_answers() -> list[tuple[str, float, float]]:
    """(whose answer, median seconds, points) of ``check("s2-forward")`` over right and wrong answers, interleaved."""
    tests = paths.ROOT / "tests"
    files = {"right: the solution": None}
    for file in sorted((tests / "right_answers" / "s2").glob("*.py")):
        files[f"right: {file.stem}"] = file
    for file in sorted((tests / "wrong_answers" / "s2").glob("*.py")):
        if "exercise=s2-forward" in file.read_text(encoding="utf-8").splitlines()[0]:
            files[f"wrong: {file.stem}"] = file
    scopes = {}
    for name, path in files.items():
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(stage_source("s2"), "solutions", "exec"), scope)
        if path:
            for cell in submission.read(path).cells:
                exec(compile(cell.source, str(path), "exec"), scope)
        scopes[name] = scope
    times: dict[str, list[float]] = {name: [] for name in scopes}
    points = {}
    for round_ in range(ROUNDS + 1):
        for name, scope in scopes.items():
            seconds, points[name] = live_seconds(scope, "s2-forward")
            if round_:  # the first is not warm
                times[name].append(seconds)
    return [(name, statistics.median(values), points[name]) for name, values in times.items()]


def pinned() -> dict[str, Any]:
    """Keyword arguments for subprocess: one core."""
    if not hasattr(os, "sched_setaffinity"):
        return {}
    core = min(os.sched_getaffinity(0))
    return {"preexec_fn": lambda: os.sched_setaffinity(0, {core})}


def our_class(folder: Path, size: int) -> float:
    """Seconds of the real command over ``size`` submissions of stage 2, on one core."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(size):
        (folder / f"student{number:02}.py").write_text(stage_source("s2"), encoding="utf-8")
    command = [sys.executable, "-m", "grader.cli", "grade", str(folder), "--stage", "s2", "--json", "--jobs", "1"]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, **pinned())
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"grading the class failed:\n{done.stderr.decode()[-2000:]}")
    return seconds


PEER_CELLS = (
    (
        "solution",
        "import torch\n\n"
        "def attention(q, k, v):\n"
        "    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v\n",
    ),
    (
        "tests",
        "q, k, v = torch.randn(3, 2, 4, 64, 16)\n"
        "assert torch.allclose(attention(q, k, v), torch.softmax(q @ k.mT / 4, -1) @ v)\n",
    ),
)


def peer_course(folder: Path, size: int) -> None:
    """A plain nbgrader course with one small notebook and ``size`` submissions of it."""
    import nbformat

    cells = []
    for name, source in PEER_CELLS:
        cell = nbformat.v4.new_code_cell(source, id=name)
        graded = name == "tests"
        cell.metadata["nbgrader"] = {
            "schema_version": 3, "grade_id": name, "grade": graded, "solution": not graded, "locked": graded,
            "task": False, "cell_type": "code",
        } | ({"points": 10} if graded else {})  # fmt: skip
        cells.append(cell)
    notebook = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    source = folder / "source" / "ps"
    source.mkdir(parents=True)
    nbformat.write(notebook, source / "ps.ipynb")
    (folder / "nbgrader_config.py").write_text('c = get_config()\nc.CourseDirectory.course_id = "peer"\n')
    nbgrader(folder, "generate_assignment", "ps")
    for number in range(size):
        to = folder / "submitted" / f"student{number:02}" / "ps"
        to.mkdir(parents=True)
        nbformat.write(notebook, to / "ps.ipynb")


def nbgrader(folder: Path, *args: str) -> float:
    start = time.perf_counter()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["nbgrader", *args], cwd=folder, env=environment, capture_output=True, **pinned())
    if done.returncode not in (0, 1):  # 1: some submission failed its tests, which skeletons do
        raise SystemExit(f"nbgrader {args[0]} failed:\n{done.stderr.decode()[-2000:]}")
    return time.perf_counter() - start


def peer_class(folder: Path, size: int) -> float:
    """Seconds of ``nbgrader autograde`` over ``size`` submissions, on one core."""
    shutil.rmtree(folder, ignore_errors=True)
    peer_course(folder, size)
    return nbgrader(folder, "autograde", "ps", "--force")


def marginal(run: Any, folder: Path, few: int, many: int) -> float:
    """Seconds per further submission: the slope between a small and a large class, so start-up does not count."""
    return (run(folder, many) - run(folder, few)) / (many - few)


def class_times(peer: bool, rounds: int) -> dict[str, float]:
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(rounds):
            ours.append(marginal(our_class, Path(scratch) / "ours", 1, 20))
            if peer:
                theirs.append(marginal(peer_class, Path(scratch) / "peer", 1, 5))
    return {"FlashDojo, stage 2": statistics.median(ours)} | (
        {"nbgrader, one cell with torch": statistics.median(theirs)} if peer else {}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="also time plain nbgrader (needs the instructor extra)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print('| check("s2-forward"), warm | s | points |\n|---|---:|---:|')
    for name, seconds, points in instant_answers():
        print(f"| {name} | {seconds:.3f} | {points:g} |", flush=True)
    print("\n| one more submission, one core | s | ratio |\n|---|---:|---:|")
    times = class_times(options.peer, options.rounds)
    base = times["FlashDojo, stage 2"]
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.2f} | {seconds / base:.1f} |")


if __name__ == "__main__":
    main()
