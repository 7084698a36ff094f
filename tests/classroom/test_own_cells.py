"""Graded cells written by an instructor: nbgrader's own execution, behind a wall."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

from grader import paths
from grader.classroom import own_cells
from grader.worker import landlock

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not landlock.abi(), reason="hand-written cells are run only behind Landlock"
)


def graded(id: str, source: str, points: float = 5) -> NotebookNode:
    own = {"schema_version": 3, "grade_id": id, "grade": True, "solution": False, "locked": True, "task": False,
           "cell_type": "code", "points": points}  # fmt: skip
    return new_code_cell(source, metadata={"nbgrader": own})


def run(folder: Path, *cells: NotebookNode, stage: str = "s2") -> dict[str, float]:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=list(cells), metadata={"kernelspec": kernel, "flashdojo": {"stage": stage}})
    own_cells.execute(notebook, {"metadata": {"path": str(folder)}}, ours=set(), parent=None)
    told = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return {cell.metadata["nbgrader"]["grade_id"]: determine_grade(cell)[0] or 0.0 for cell in told}


def test_they_get_what_nbgrader_gives_and_reach_nothing(tmp_path: Path):
    course = tmp_path / "course"
    handed_in = course / "autograded" / "ada" / "hw"
    handed_in.mkdir(parents=True)
    (handed_in / "numbers.txt").write_text("41")
    (course / "gradebook.db").write_text("grades")
    answer = new_code_cell(
        "def f():\n    return int(open('numbers.txt').read()) + 1\n"
        f"def reach(mode):\n    try:\n        open({str(course / 'gradebook.db')!r}, mode)\n"
        "    except OSError:\n        return False\n    return True\n"
    )
    scores = run(
        handed_in,
        answer,
        graded("right", "assert f() == 42"),
        graded("wrong", "assert f() == 43"),
        graded("partly", "2.5"),
        graded("walled", "assert not reach('r') and not reach('a')"),
    )
    assert scores == {"right": 5, "wrong": 0, "partly": 2.5, "walled": 5}
    assert (course / "gradebook.db").read_text() == "grades"


def test_a_kernel_that_dies_gives_no_marks(tmp_path: Path):
    assert run(tmp_path, new_code_cell("import os\nos._exit(0)"), graded("after", "assert True")) == {"after": 0}


def test_in_stage_three_they_have_the_npu_and_still_reach_nothing(tmp_path: Path):
    first = new_code_cell("import kernels.ascend\nimport torch, torch_npu")
    scores = run(
        tmp_path,
        first,
        graded("npu", "assert torch.ones(2).npu().sum().item() == 2"),
        graded(
            "walled",
            f"try:\n    open({str(paths.STAGES / 's3_npu_deployment' / 'stage.toml')!r})\n"
            "except OSError:\n    pass\nelse:\n    raise AssertionError",
        ),
        stage="s3",
    )
    assert scores == {"npu": 5, "walled": 5}
