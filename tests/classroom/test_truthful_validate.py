"""``nbgrader validate``: the public checks in the learner's kernel, and a true exit code."""

from __future__ import annotations

import copy

import nbformat
import pytest
from course_run import Run, cell_of, solved

pytestmark = pytest.mark.timeout(600)  # the first waits for the whole course


def test_a_right_notebook_passes_and_a_wrong_one_does_not(course: Run):
    right = solved(course.released())
    nbformat.write(right, course.folder / "right.ipynb")
    assert "Success" in course.nbgrader("validate", "right.ipynb")
    wrong = copy.deepcopy(right)
    wrong.cells[cell_of(wrong, "s2-traffic-answer")].source = "def flash_traffic(*sizes):\n    return {}"
    nbformat.write(wrong, course.folder / "wrong.ipynb")
    assert "VALIDATION FAILED ON 1 CELL" in course.nbgrader("validate", "wrong.ipynb", code=1)


def test_a_deleted_check_cell_is_no_success(course: Run):
    notebook = solved(course.released())
    del notebook.cells[cell_of(notebook, "s2-forward")]
    nbformat.write(notebook, course.folder / "deleted.ipynb")
    said = course.nbgrader("validate", "deleted.ipynb", code=1)
    assert "s2-forward" in said
    assert "Success" not in said
