"""In the place of nbgrader's Execute: the judge grades the learner's cells, and each graded cell gets its number.

What nbgrader reads from a graded cell is its first error, line on stderr, or result; without any it gives full marks.
So every graded cell gets exactly one result here, an explicit number, and the messages beside it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Integer, Unicode

from grader import results
from grader.batch.plan import Job, Plan, Record, ungraded
from grader.classroom import own_cells
from grader.classroom.marking import Marker, Submitted
from grader.classroom.reading import REPAIRS, UNREADABLE, given
from grader.files import write_whole
from grader.inputs import Secret
from grader.reading import submission
from grader.text import Text, say
from grader.views import html, terminal


class GraderFailed(Exception):
    """The grader's own fault: nbgrader then records nothing for this submission, and goes on with the next."""


class JudgeCells(NbGraderPreprocessor):
    """Grades FlashDojo's cells; cells that an instructor added are run by nbgrader's own Execute, behind a wall."""

    course = Unicode(help="The course folder").tag(config=True)
    secret_file = Unicode(help="The key that the inputs follow from").tag(config=True)
    checks = Unicode(help="A folder of private checks, used beside the course's own").tag(config=True)
    jobs = Integer(0, help="Submissions at a time; 0 for as many as there are cores").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        told = resources["nbgrader"]
        course = Path(self.course)
        model = given(course, told["assignment"], told["notebook"])
        stage = model.metadata.get("flashdojo", {}).get("stage", "") if model is not None else ""
        ours = _exercises(model) if stage and model is not None else {}
        if any(_is_checked(cell) and cell.metadata.nbgrader["grade_id"] not in ours for cell in nb.cells):
            own_cells.execute(nb, resources, ours=set(ours), parent=self)
        if ours:
            self._judge(nb, Submitted(course, told["student"], told["assignment"], told["notebook"]), stage, ours)
        return nb, resources

    def _judge(self, nb: NotebookNode, which: Submitted, stage: str, ours: dict[str, str]) -> None:
        plan = Plan(stage=stage, secret=self._secret(), checks=Path(self.checks) if self.checks else None)
        if UNREADABLE in nb.metadata:
            record = Record(
                ungraded(Job(which.path, which.student), "unreadable", Text(**nb.metadata[UNREADABLE]), stage=stage)
            )
        else:
            record = Marker.of(plan, self.jobs).record(which, nbformat.writes(nb).encode(), self.config)
        row = record.row
        if row["status"] == "failed":
            raise GraderFailed(row["message"]["en"])
        if row["sha256"] and not nb.metadata.get(REPAIRS):  # cell for cell what was handed in: pages may show its code
            row["sha256"] = hashlib.sha256(submission.contents(which.path)).hexdigest()
        row["repairs"] = [*nb.metadata.get(REPAIRS, []), *row["repairs"]]
        keep(which, results.document([row], secret=plan.secret, isolation=record.isolation))
        shown = results.for_learner(row)
        exercises = {exercise["id"]: exercise for exercise in shown["exercises"]}
        for cell in nb.cells:
            if _is_checked(cell) and cell.metadata.nbgrader["grade_id"] in ours:
                fill(cell, shown, exercises.get(ours[cell.metadata.nbgrader["grade_id"]]))

    def _secret(self) -> Secret:
        try:
            key = Path(self.secret_file).read_bytes().strip()
        except OSError as error:
            raise GraderFailed(f"{self.secret_file}: {error.strerror}") from None
        if not key:
            raise GraderFailed(str(say("密钥文件是空的：{file}", "the secret is empty: {file}", file=self.secret_file)))
        return Secret(key)


def _is_checked(cell: NotebookNode) -> bool:
    """A cell that nbgrader takes a number from, rather than a person."""
    return cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell)


def _exercises(model: NotebookNode) -> dict[str, str]:
    """grade_id -> exercise, of the check cells that were given out. What a submission says of itself does not count."""
    return {
        cell.metadata.nbgrader["grade_id"]: cell.metadata["flashdojo"]["exercise"]
        for cell in model.cells
        if _is_checked(cell) and cell.metadata.get("flashdojo", {}).get("role") == "check"
    }


def fill(cell: NotebookNode, row: dict[str, Any], exercise: dict[str, Any] | None) -> None:
    """Give a check cell its outputs: the messages, for people, and the points as a number, for nbgrader. An instructor
    who gives the cell other points gets the same share of them."""
    points = float(cell.metadata.nbgrader["points"])
    share = exercise["score"] / exercise["max_score"] if exercise and exercise["max_score"] else 0.0
    part = row | {"exercises": [exercise] if exercise else []}
    cell.outputs = [
        new_output(
            "display_data", data={"text/html": html.render(part, live=False), "text/plain": terminal.plain(part)}
        ),
        new_output("execute_result", data={"text/plain": f"{share * points:.4f}"}, execution_count=1),
    ]
    cell.execution_count = 1


def keep(which: Submitted, document: dict[str, Any]) -> None:
    """The result in full, for reports about the class: never in a folder that feedback copies. An assignment of several
    notebooks has one for each."""
    folder = which.course / "results" / which.assignment
    folder.mkdir(parents=True, exist_ok=True)
    several = len([*(which.course / "source" / which.assignment).glob("*.ipynb")]) > 1
    name = f"{which.student}.{which.notebook}.json" if several else f"{which.student}.json"
    write_whole(folder / name, json.dumps(document, ensure_ascii=False, indent=1), mode=0o640)
