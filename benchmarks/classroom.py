"""``nbgrader autograde`` of a class: the judge in the place of the kernel, beside nbgrader's own execution.

    .venv/bin/python -m benchmarks.classroom [--size 20] [--rounds 1]

Both grade the same notebooks of stage 2, all exercises solved, with the real command. nbgrader's own execution runs the
cells as they are: the public checks in a kernel for each learner, which is also what a cheat could forge.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from grader.classroom.course import create
from grader.course import catalog, notebooks

STAGE, NOTEBOOK = "s2", "s2_flash_attention"
OWN_EXECUTION = """
from nbgrader.preprocessors import (
    AssignLatePenalties, CheckCellMetadata, Execute, IgnorePattern, LimitOutput, SaveAutoGrades)
from nbconvert.preprocessors import ClearMetadataPreprocessor
c.Autograde.autograde_preprocessors = [Execute, IgnorePattern, ClearMetadataPreprocessor, LimitOutput, SaveAutoGrades,
                                       AssignLatePenalties, CheckCellMetadata]
c.Execute.timeout = 300
"""


def nbgrader(folder: Path, *words: str) -> float:
    """Seconds of one command."""
    command = [str(Path(sys.executable).with_name("nbgrader")), *words]
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"}
    )
    if done.returncode:
        raise SystemExit(f"nbgrader {' '.join(words)} failed:\n{done.stderr[-3000:]}")
    return time.perf_counter() - start


def make_course(folder: Path, size: int) -> None:
    create(folder, [catalog.load(checks=False).stage(STAGE)], "en")
    nbgrader(folder, "generate_assignment", STAGE)
    released = nbformat.read(folder / "release" / STAGE / f"{NOTEBOOK}.ipynb", 4)
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        own = cell.metadata.get("flashdojo", {})
        if own.get("role") == "answer":
            cell.source = notebooks.solution(catalog.load(checks=False).exercise(own["exercise"]), "en")
    for number in range(size):
        target = folder / "submitted" / f"student{number:03}" / STAGE / f"{NOTEBOOK}.ipynb"
        target.parent.mkdir(parents=True)
        nbformat.write(notebook, target)


def autograde(folder: Path, own: bool) -> float:
    """Seconds of grading the whole class anew."""
    config = folder / "nbgrader_config.py"
    text = config.read_text("utf-8").replace(OWN_EXECUTION, "") + (OWN_EXECUTION if own else "")
    config.write_text(text, encoding="utf-8")
    return nbgrader(folder, "autograde", STAGE, "--force")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "course"
        make_course(folder, options.size)
        for _ in range(options.rounds):
            for own in (False, True):
                times[own].append(autograde(folder, own))
    ours, theirs = statistics.median(times[False]), statistics.median(times[True])
    print(f"| nbgrader autograde, {options.size} notebooks of stage 2 | s | s each | ratio |\n|---|---:|---:|---:|")
    for name, seconds in (("with the judge", ours), ("nbgrader's own execution", theirs)):
        print(f"| {name} | {seconds:.1f} | {seconds / options.size:.2f} | {seconds / ours:.1f} |")


if __name__ == "__main__":
    main()
