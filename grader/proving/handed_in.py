"""What a proof hands in beside a program: the files that the worked solutions write, or that a sample does.

They are made and not kept: the code that writes them is in ``solutions/`` once, and every other copy would go stale.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from grader import paths
from grader.course.catalog import Stage
from grader.reading.artifacts import Artifacts, within

SECONDS = 120.0


def of_solutions(stage: Stage, without: str | None = None) -> dict[str, bytes]:
    """By path. ``without``: an exercise that is not solved, so neither is what follows it."""
    programs = []
    for exercise in stage.exercises:
        if exercise.id == without:
            break
        if exercise.is_artifact:
            programs.append(exercise.solution.read_text("utf-8"))
    return dict(_written_by(tuple(programs)).files)


def of_sample(file: Path, stage: Stage) -> dict[str, bytes]:
    """As :func:`of_solutions`, after the sample ran in the same folder. It is one of our own, so it may."""
    solved = tuple(exercise.solution.read_text("utf-8") for exercise in stage.exercises if exercise.is_artifact)
    return dict(_written_by((*solved, file.read_text("utf-8"))).files)


@functools.cache
def _written_by(programs: tuple[str, ...]) -> Artifacts:
    """Run one after the other in one folder, as the cells of a notebook are."""
    with tempfile.TemporaryDirectory(prefix="flashdojo-proof-") as folder:
        for program in programs:
            subprocess.run(
                [sys.executable, "-"],
                input=program,
                text=True,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": str(paths.ROOT)},
                check=True,
                timeout=SECONDS,
                stdout=subprocess.DEVNULL,
            )
        return within(Path(folder))
