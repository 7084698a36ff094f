"""How sure is the speed check of s4-fast? Right answers and the unchanged start, graded again and again on a machine
that others keep busy.

    python -m benchmarks.speed_check [--runs 200] [--busy 2]

Prints, for every right answer and for the start, how often it passed, the ratios that were measured, and seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from grader import paths
from grader.course import catalog
from grader.inputs import Secret
from grader.judging.desk import Desk
from grader.reading import submission

EXERCISE, CHECK = "s4-fast", "s4-fast.speed"
START = paths.STAGES / "s4_profiling_tuning" / "slow_attention.py"


def spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """That many processes which do nothing but use a core."""
    processes = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


def answers() -> dict[str, Path]:
    samples = sorted((paths.ROOT / "tests" / "right_answers" / "s4").glob("fast_*.py"))
    solution = catalog.load(checks=False).exercise(EXERCISE).solution
    return {"unchanged start": START, "worked solution": solution, **{file.stem: file for file in samples}}


def graded(desk: Desk, file: Path, run: int) -> dict[str, Any]:
    """The row of the speed check, on inputs of this run's own."""
    stage = catalog.load().stage("s4")
    secret = Secret(f"benchmark {run}".encode())
    text = file.read_text("utf-8")
    if file == START:
        text += "\n\ndef fast_attention(q, k, v):\n    return slow_attention(q, k, v)\n"
    program = submission.parsed(file, text.encode())
    answer = desk.grade(program, stage, secret=secret, exercises={EXERCISE})
    (exercise,) = answer["exercises"]
    (row,) = [check for check in exercise["checks"] if check["id"] == CHECK]
    return row


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=200, help="of the start, and of all right answers together")
    arguments.add_argument("--busy", type=int, default=2, help="busy loops beside it")
    chosen = arguments.parse_args()
    files = answers()
    right = [name for name in files if name != "unchanged start"]
    plan = [("unchanged start", run) for run in range(chosen.runs)]
    plan += [(right[run % len(right)], run) for run in range(chosen.runs)]
    plan.sort(key=lambda item: item[1])  # interleaved
    rows: dict[str, list[tuple[dict[str, Any], float]]] = {name: [] for name in files}
    with Desk() as desk, busy(chosen.busy):
        for name, run in track(plan, description=EXERCISE, console=Console(stderr=True)):
            start = time.perf_counter()
            row = graded(desk, files[name], run)
            rows[name].append((row, time.perf_counter() - start))
    table = Table(title=f"{CHECK} with {chosen.busy} busy loops beside it")
    for column in ("answer", "runs", "passed", "times faster: median", "least", "most", "seconds"):
        table.add_column(column, justify="left" if column == "answer" else "right")
    for name, found in rows.items():
        ratios = [row["evidence"]["ratio"] for row, _ in found if "ratio" in row["evidence"]]
        table.add_row(
            name,
            str(len(found)),
            str(sum(row["status"] == "passed" for row, _ in found)),
            *([f"{of(ratios):.2f}" for of in (statistics.median, min, max)] if ratios else ["-"] * 3),
            f"{statistics.median(seconds for _, seconds in found):.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
