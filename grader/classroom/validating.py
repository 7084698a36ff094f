"""``nbgrader validate`` that tells the truth: exit code 1 when a notebook fails, and a deleted check cell fails too.

nbgrader 0.9 exits with 0 whatever it found (jupyter/nbgrader#1908), and finds nothing wrong where nothing is left.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

from grader.course import catalog
from grader.text import say

COMPLAINTS = ("type_changed", "changed", "failed", "passed")  # keys of what Validator.validate found wrong


@functools.cache
def tell_the_truth() -> None:
    """Wrap nbgrader's validator and its command in this process, once."""
    from nbgrader.apps.validateapp import ValidateApp
    from nbgrader.validator import Validator

    start, validate, failed_cells = ValidateApp.start, Validator.validate, Validator._get_failed_cells
    complaints: list[str] = []

    def failed(self: Any, notebook: NotebookNode) -> list[NotebookNode]:
        return [*failed_cells(self, notebook), *missing_cells(notebook)]

    def validated(self: Any, filename: str) -> dict[str, Any]:
        results: dict[str, Any] = validate(self, filename)
        complaints.extend(key for key in COMPLAINTS if key in results)
        return results

    def started(self: Any) -> None:
        complaints.clear()
        start(self)
        if complaints:
            sys.exit(1)

    Validator._get_failed_cells, Validator.validate, ValidateApp.start = failed, validated, started


def missing_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """For each check cell of the stage that is no longer in the notebook, a cell that says so as its error."""
    stage_id = notebook.metadata.get("flashdojo", {}).get("stage")
    stages = {stage.id: stage for stage in catalog.load(checks=False).stages}
    there = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    if stage_id not in stages or there == {None}:  # not ours, or never released by nbgrader
        return []
    return [_missing(exercise.id) for exercise in stages[stage_id].exercises if exercise.id not in there]


def _missing(exercise: str) -> NotebookNode:
    message = say(
        '检查单元 {id} 被删掉了。加一个代码单元，写上 check("{id}")，或重新下载作业；评分时它会被补回来。',
        'The check cell {id} was deleted. Add a code cell with check("{id}"), or fetch the assignment again; grading '
        "puts it back.",
        id=exercise,
    )
    error = new_output("error", ename="Missing", evalue=str(message), traceback=[str(message)])
    return new_code_cell(f'check("{exercise}")', outputs=[error])
