"""The whole life of a course on nbgrader's own commands, and what it leaves."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from pathlib import Path

import pytest
from course_run import EXPLOITS, STAGE, Run, cell_of
from nbgrader.utils import determine_grade

from grader import results
from grader.course import catalog, notebooks
from grader.reports.read import read_document

pytestmark = pytest.mark.timeout(600)  # the first waits for the whole course


def test_every_submission_has_its_grade(course: Run):
    assert len(course.scores) == 13  # twelve, and the account that used fetch and submit
    own = next(name for name in course.scores if name not in {*EXPLOITS, "ada", "陈 晨", "idle", "duplicated",
                                                              "shortened", "edited", "broken"})  # fmt: skip
    assert course.scores[own] == 100
    assert course.scores["ada"] == 100
    assert 95 <= course.scores["陈 晨"] < 100
    assert course.scores["idle"] == 0
    assert course.scores["broken"] == 0


@pytest.mark.parametrize("student", ["duplicated", "edited"])
def test_an_accident_costs_nothing(course: Run, student: str):
    assert course.scores[student] == 100


def test_what_was_deleted_is_put_back_and_said(course: Run):
    notebook = course.autograded("shortened")
    assert cell_of(notebook, "s2-forward") < cell_of(notebook, "s2-module-answer")
    assert "s2-merge-answer" in notebook.cells[0].source
    assert 0 < course.scores["shortened"] < 100


@pytest.mark.parametrize("student", EXPLOITS)
def test_an_exploit_gets_nothing(course: Run, student: str):
    assert course.scores[student] == 0


def test_every_graded_cell_holds_one_number(course: Run):
    for student in course.scores:
        for cell in course.autograded(student).cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                results = [output for output in cell.outputs if output.output_type == "execute_result"]
                assert len(results) == 1
                assert re.fullmatch(r"\d+\.\d{4}", results[0]["data"]["text/plain"])
                score, most = determine_grade(cell)
                assert 0 <= score <= most


def test_messages_and_partial_credit_stand_together(course: Run):
    notebook = course.autograded("陈 晨")
    cell = notebook.cells[cell_of(notebook, "s2-traffic")]
    score, most = determine_grade(cell)
    assert 0 < score < most
    assert "flops" in cell.outputs[0]["data"]["text/html"]


def test_what_a_submission_points_to_is_not_collected(course: Run):
    assert sorted(file.name for file in (course.folder / "submitted" / "idle" / STAGE).iterdir()) == [
        "s2_flash_attention.ipynb", "submission_secret.txt", "timestamp.txt",
    ]  # fmt: skip
    assert "loot.txt is no regular file" in course.outputs[f"collect {STAGE}"]


def test_solutions_are_in_no_released_notebook_and_no_feedback(course: Run):
    secret = (course.folder / "secret.key").read_text().strip()
    exercises = catalog.load(checks=False).stage(STAGE).exercises
    released = "\n".join(cell.source for cell in course.released().cells)
    answers = {line for exercise in exercises for line in solution_lines(notebooks.marked(exercise, "en"))}
    assert len(answers) > 100
    given = released + "\n".join(hint.en for exercise in exercises for hint in exercise.hints)
    hidden = {line for line in answers if line not in given}
    assert len(hidden) > 0.9 * len(answers)
    for student in ("idle", "patched-asserts"):
        feedback = course.feedback(student)
        text = html.unescape(re.sub(r"<[^>]+>", "", feedback))
        assert secret not in feedback
        assert not [line for line in hidden if line in text]


def solution_lines(source: str) -> list[str]:
    """The lines between the marks that are long enough to be told from anybody's code."""
    regions = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source, re.DOTALL)
    lines = [line.strip() for region in regions for line in region.splitlines()]
    return [line for line in lines if len(line) > 30 and not line.startswith("#")]


def test_feedback_says_what_is_wrong_in_both_languages(course: Run):
    feedback = course.feedback("陈 晨")
    assert "s2-traffic" in feedback
    assert 'lang="zh"' in feedback


def test_each_result_is_kept_as_a_document_for_reports(course: Run):
    files = sorted((course.folder / "results" / STAGE).glob("*.json"))
    assert {file.stem for file in files} == set(course.scores)
    document = json.loads((course.folder / "results" / STAGE / "ada.json").read_text("utf-8"))
    results.validate(document)
    assert [(row["student"], row["score"]) for row in document["submissions"]] == [("ada", 100)]
    everybody = read_document(course.folder / "results" / STAGE)
    whole = [row for row in everybody["submissions"] if row["status"] == "graded" and not row["repairs"]]
    assert len(whole) >= 3
    for row in whole:  # pages show the code of what was handed in
        assert row["sha256"] == hashlib.sha256(Path(row["path"]).read_bytes()).hexdigest()
    assert {row["student"]: row["score"] for row in everybody["submissions"]} == course.scores


def test_manual_marks_and_late_penalties_survive_a_regrade(course: Run, tmp_path):
    copy = Run(tmp_path / "my course")
    shutil.copytree(course.folder, copy.folder)
    ids = copy.gradebook(
        "select grade.id from grade join base_cell on grade.cell_id = base_cell.id "
        "join submitted_notebook on grade.notebook_id = submitted_notebook.id "
        "join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id "
        "where submitted_assignment.student_id = 'idle' and base_cell.name = 's2-forward'"
    )
    assert len(ids) == 1
    import sqlite3

    connection = sqlite3.connect(copy.folder / "gradebook.db")
    connection.execute("update grade set manual_score = 12.5 where id = ?", ids[0])
    connection.execute("update assignment set duedate = '2026-03-01 11:00:00'")
    connection.commit()
    connection.close()
    with (copy.folder / "nbgrader_config.py").open("a") as file:
        file.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    copy.nbgrader("autograde", STAGE, "--student", "idle", "--force")
    copy.export()
    assert copy.gradebook(f"select manual_score from grade where id = '{ids[0][0]}'") == [(12.5,)]
    assert copy.scores["idle"] == 0  # late: all of it is taken
    copy.nbgrader("autograde", STAGE, "--student", "ada", "--force")
    assert "ada" in copy.scores
