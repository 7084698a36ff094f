"""A stage as nbgrader's source notebook: the learner's notebook with worked solutions and nbgrader's metadata.

Each exercise is two cells: ``<id>-answer``, the learner's, and ``<id>``, locked, which holds ``check("<id>")`` and the
points. Metadata is nbgrader's schema version 3.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode

from grader.course import notebooks
from grader.course.catalog import Stage
from grader.course.lesson import PLACEHOLDER

SCHEMA = 3


def source_notebook(stage: Stage, lang: str) -> NotebookNode:
    """What ``source/<assignment>/`` holds: ``nbgrader generate_assignment`` makes the learner's notebook of it."""
    notebook = notebooks.build(stage, lang)
    exercises = {exercise.id: exercise for exercise in stage.exercises}
    for cell in notebook.cells:
        own = cell.metadata["flashdojo"]
        if own["role"] == "setup":
            cell.metadata["nbgrader"] = _metadata(f"{stage.id}-setup", locked=True)
        elif own["role"] == "answer":
            exercise = exercises[own["exercise"]]
            cell.source = notebooks.marked(exercise, lang).rstrip("\n")
            cell.metadata["nbgrader"] = _metadata(f"{exercise.id}-answer", solution=True)
        elif own["role"] == "check":
            exercise = exercises[own["exercise"]]
            cell.metadata["nbgrader"] = _metadata(exercise.id, grade=True, locked=True) | {"points": exercise.points}
    return notebook


def stub(lang: str) -> str:
    """What stands in the place of a solution in the released notebook."""
    return f"# {PLACEHOLDER[lang]}\nraise NotImplementedError()"


def _metadata(grade_id: str, *, grade: bool = False, solution: bool = False, locked: bool = False) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA, "grade_id": grade_id, "grade": grade, "solution": solution, "locked": locked,
        "task": False, "cell_type": "code",
    }  # fmt: skip
