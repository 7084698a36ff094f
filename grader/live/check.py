"""The instant answer: ``check("s2-forward")`` in a notebook, on the functions as they are in its kernel.

Same checks and same engine as the official grading, without the wall and on inputs that everybody can know; never a
grade.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import results
from grader.course import catalog
from grader.course.catalog import Exercise, Stage, UnknownName
from grader.inputs import Secret
from grader.judging.judge import grade_program, judge_exercise
from grader.live.device import device
from grader.live.subject import LiveSubject
from grader.progress import FOLDER, Progress
from grader.reading.artifacts import within
from grader.reading.submission import Cell, Program
from grader.syntax import tree_of
from grader.text import Text
from grader.threads import one_thread
from grader.worker.names import soc_in

__all__ = ["CheckView", "LiveSubject", "check"]


class CheckView:
    """What ``check`` found. ``repr`` is the earned points as a plain number, and nothing else."""

    def __init__(self, submission: dict[str, Any]):
        self.submission = submission

    def __float__(self) -> float:
        return float(self.submission["score"])

    def __repr__(self) -> str:
        return f"{float(self):g}"

    def _repr_html_(self) -> str:
        from grader.views import html

        return html.render(self.submission)


def check(what: str, namespace: dict[str, Any] | None = None) -> CheckView:
    """Run the public checks of an exercise (``"s2-forward"``, ``"s2.forward"``) or of a stage (``"s2"``) on the
    caller's globals. Shows a page in Jupyter, prints text elsewhere."""
    scope = sys._getframe(1).f_globals if namespace is None else namespace
    try:
        stage, exercises = _resolve(what)
    except UnknownName as error:
        return _shown(CheckView(_without_answer(error.message)))
    with one_thread():
        submission = _run(stage, exercises, scope)
    _remember(submission)
    return _shown(CheckView(submission))


def _resolve(what: str) -> tuple[Stage, list[Exercise]]:
    course = catalog.load()
    wanted = what.strip()
    if any(wanted in (stage.id, stage.folder) for stage in course.stages):
        stage = course.stage(wanted)
        return stage, stage.exercises
    exercise = course.exercise(wanted)
    return course.stage(exercise.stage_id), [exercise]


def _run(stage: Stage, exercises: list[Exercise], scope: dict[str, Any]) -> dict[str, Any]:
    program, here = _history(scope, stage), device(stage.device)
    if any(exercise.is_artifact for exercise in exercises):
        program = replace(program, artifacts=within(Path.cwd()))
    written = {name for cell in program.cells for name in _defined(cell)}
    if all(exercise.name in written or exercise.name not in scope for exercise in exercises):
        return grade_program(
            program,
            stage,
            student="",
            secret=Secret(),
            subject_factory=lambda bans: LiveSubject(scope, bans, device=here, soc=soc_in(bans)),
            only_public=True,
            exercises={exercise.id for exercise in exercises},
        )
    rows = [
        judge_exercise(
            exercise,
            LiveSubject(scope, exercise.forbid, device=here, soc=exercise.soc),
            artifacts=program.artifacts,
        )
        for exercise in exercises
    ]
    return results.submission(path="", student="", stage=stage.id, exercises=rows)


def _history(scope: dict[str, Any], stage: Stage) -> Program:
    """The cells that were run so far, as a program whose source can be read. A cell all of whose definitions were
    made anew by a later one is history in the other sense."""
    sources = scope.get("In")
    cells = []
    redefined: set[str] = set()
    for number, source in reversed(list(enumerate(sources if isinstance(sources, list) else ()))):
        cell = _cell(number, source)
        if cell is None:
            continue
        names = _defined(cell)
        if not names or not names <= redefined:
            cells.append(cell)
        redefined |= names
    return Program(Path("notebook"), "", cells[::-1], stage.id)


def _cell(number: int, source: Any) -> Cell | None:
    try:
        return Cell(number, source, tree=tree_of(source)) if source else None
    except (SyntaxError, ValueError, TypeError):
        return None


def _defined(cell: Cell) -> set[str]:
    body = cell.tree.body if cell.tree else ()
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def _without_answer(message: Text) -> dict[str, Any]:
    return results.submission(path="", student="", stage=None, status="unreadable", message=message)


def _remember(submission: dict[str, Any]) -> None:
    """Progress, when the notebook lies in a work folder. Never a reason to fail."""
    if Path(FOLDER).is_dir():
        with contextlib.suppress(OSError):
            Progress(Path.cwd()).record(submission["exercises"])


def _shown(view: CheckView) -> CheckView:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        from grader.views.terminal import console, show_submission

        show_submission(console(), view.submission, live=True)
    return view
