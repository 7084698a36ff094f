"""How fast a class is graded, and whether broken submissions change that.

    python -m benchmarks.batch jobs     # 100 submissions of stage 2 with one job and with two
    python -m benchmarks.batch size     # time per submission in classes of 20 and of 300
    python -m benchmarks.batch broken   # 300 submissions, 15 of them broken in 15 ways

All on the real command. Results are not kept, so every submission is graded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grader import paths
from grader.batch.run import default_jobs
from grader.course import catalog
from grader.proving.samples import sample_files
from grader.proving.tools import completed

STAGE = "s2"
MIX = 20  # programs that a class is made of, over and over


def notebook(cells: list[dict[str, Any]], language: str = "python") -> str:
    return json.dumps({
        "nbformat": 4, "nbformat_minor": 5, "cells": cells,
        "metadata": {"kernelspec": {"name": "k", "display_name": "k", "language": language}},
    })  # fmt: skip


# What is handed in, and what the answer has to say.
BROKEN: dict[str, tuple[str | bytes, str]] = {
    "empty.py": ("", "an empty file"),
    "latin.py": ("# \xe9\n".encode("latin-1"), "not UTF-8"),
    "nul.py": ("x = 1\0", "NUL bytes"),
    "hello.ipynb": ("hello", "not a Jupyter notebook"),
    "bare.ipynb": ('{"nbformat": 4}', "not a Jupyter notebook"),
    "r.ipynb": (notebook([{"cell_type": "code", "source": "x <- 1"}], "R"), "not a Python notebook"),
    "prose.ipynb": (notebook([{"cell_type": "markdown", "source": "later"}]), "no code in it"),
    "endless-text.py": ("x = 1\n" * 100_000, "larger than 512 KB of code"),
    "syntax.py": ("def flash_attention_forward(q, k, v:\n    pass\n", "has an error: SyntaxError"),
    "nothing.py": ("import torch\n", "is not defined"),
    "exits.py": ("{right}\nimport os\nos._exit(3)\n", "ended its own process"),
    "loops.py": ("{right}\nwhile True:\n    pass\n", "did not come back within"),
    "swells.py": ("{right}\nhoard = [bytearray(1 << 24) for _ in range(1000)]\n", "MemoryError"),
    "ctypes.py": ("{right}\nimport ctypes\nctypes.string_at(0)\n", "changes foreign modules through ctypes"),
    "link.py": ("", "a symbolic link out of its own folder"),
}


def programs() -> list[str]:
    """Complete answers to the stage: every second one right in its own way, the others each with a known mistake."""
    stage = catalog.load().stage(STAGE)
    right = "\n\n".join(exercise.solution.read_text("utf-8") for exercise in stage.exercises)
    wrong = []
    for file in itertools.islice((f for f in sample_files("wrong") if f.parent.name == STAGE), 0, None, 5):
        with completed(file, stage) as path:
            wrong.append(path.read_text("utf-8"))
    return [program for pair in zip(itertools.repeat(right), wrong) for program in pair][:MIX]


@contextmanager
def class_of(size: int, broken: bool = False) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="flashdojo-class-") as folder:
        parts = itertools.cycle(programs())
        for number in range(size - len(BROKEN) * broken):
            Path(folder, f"student{number:03}.py").write_text(f"# student {number}\n{next(parts)}", "utf-8")
        for name, (content, _) in BROKEN.items() if broken else ():
            path = Path(folder, name)
            if name == "link.py":
                path.symlink_to("/etc/hostname")
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content.replace("{right}", programs()[0]), "utf-8")
        yield Path(folder)


def graded(folder: Path, jobs: int) -> tuple[float, list[dict[str, Any]]]:
    """(seconds of the real command, rows)."""
    words = [sys.executable, "-m", "grader.cli", "grade", str(folder), "--stage", STAGE, "--json", "--no-cache"]
    start = time.perf_counter()
    done = subprocess.run([*words, "--jobs", str(jobs)], cwd=paths.ROOT, capture_output=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"grading failed:\n{done.stderr.decode()[-2000:]}")
    return seconds, json.loads(done.stdout)["submissions"]


def jobs(size: int, rounds: int) -> None:
    with class_of(size) as folder:
        times: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for count, seconds in times.items():
                seconds.append(graded(folder, count)[0])
    one, two = (statistics.median(seconds) for seconds in times.values())
    print(f"| {size} submissions | s |\n|---|---:|\n| --jobs 1 | {one:.1f} |\n| --jobs 2 | {two:.1f} |")
    print(f"| ratio | {one / two:.2f} |", flush=True)


def size(few: int, many: int, rounds: int) -> None:
    """Without the start, which is the same for all: what one submission alone takes is taken off."""
    per: dict[int, list[float]] = {few: [], many: []}
    with class_of(1) as alone, class_of(few) as small, class_of(many) as large:
        for _ in range(rounds):
            start = graded(alone, 1)[0]
            for count, folder in ((few, small), (many, large)):
                per[count].append((graded(folder, 1)[0] - start) / (count - 1))
    a, b = (statistics.median(values) for values in per.values())
    print("| class, one job | s per submission |\n|---|---:|")
    print(f"| {few} | {a:.3f} |\n| {many} | {b:.3f} |\n| difference | {100 * (b / a - 1):+.1f} % |", flush=True)


def broken(many: int) -> None:
    with class_of(many, broken=True) as folder:
        seconds, rows = graded(folder, default_jobs(many))
    by_name = {Path(row["path"]).name: row for row in rows}
    assert len(rows) == len(by_name) == many
    print(f"{many} submissions, {len(BROKEN)} of them broken: {len(rows)} results in {seconds:.0f} s")
    print("| broken | status | points | reason |\n|---|---|---:|---|")
    for name, (_, expected) in BROKEN.items():
        row = by_name[name]
        reason = reason_of(row)
        assert expected in reason, (name, reason)
        print(f"| {name} | {row['status']} | {row['score']:g} | {reason.replace(str(folder), '')[:90]} |")
    others = {row["status"] for name, row in by_name.items() if name not in BROKEN}
    assert others == {"graded"}, others


def reason_of(row: dict[str, Any]) -> str:
    """What its author reads first."""
    if row["message"] or row["repairs"]:
        return str((row["message"] or row["repairs"][0])["en"])
    return next(str(c["message"]["en"]) for e in row["exercises"] for c in e["checks"] if c["status"] != "passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["jobs", "size", "broken"])
    parser.add_argument("--few", type=int, default=20)
    parser.add_argument("--many", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    if options.what == "jobs":
        jobs(100, options.rounds)
    elif options.what == "size":
        size(options.few, options.many, options.rounds)
    else:
        broken(options.many)


if __name__ == "__main__":
    main()
