"""Putting a submission's notebook back into the shape it was given out in."""

from __future__ import annotations

import copy

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.preprocessors import CheckCellMetadata, ClearSolutions

from grader.classroom.repair_cells import repair
from grader.classroom.source import source_notebook, stub
from grader.course import catalog, notebooks
from grader.text import LANGUAGES

STAGES = [stage.id for stage in catalog.load(checks=False).stages]


@pytest.fixture
def model() -> NotebookNode:
    notebook = source_notebook(catalog.load(checks=False).stage("s2"), "en")
    released, _ = ClearSolutions().preprocess(notebook, {})
    return released


def ids(notebook: NotebookNode) -> list[str]:
    found = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    return [id for id in found if id]


def place(notebook: NotebookNode, id: str) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == id)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("stage_id", STAGES)
def test_the_released_notebook_is_the_learners_but_for_the_stub(stage_id: str, lang: str):
    stage = catalog.load(checks=False).stage(stage_id)
    ours = notebooks.build(stage, lang)
    released, _ = ClearSolutions(code_stub={"python": stub(lang)}).preprocess(source_notebook(stage, lang), {})
    CheckCellMetadata().preprocess(released, {})
    assert len(ours.cells) == len(released.cells)
    for cell, given in zip(ours.cells, released.cells, strict=True):
        exercise = cell.metadata["flashdojo"]["exercise"]
        assert cell.source.replace(f'NotImplementedError("{exercise}")', "NotImplementedError()") == given.source
    told = [cell.metadata.get("nbgrader", {}) for cell in released.cells]
    assert sum(own["points"] for own in told if own.get("grade")) == 100


def test_an_untouched_notebook_needs_no_repair(model: NotebookNode):
    notebook = copy.deepcopy(model)
    assert repair(notebook, model) == []
    assert notebook == model


def test_lost_metadata_is_found_by_what_else_tells_a_cell(model: NotebookNode):
    by_id, by_name = copy.deepcopy(model), copy.deepcopy(model)
    for cell in by_id.cells:
        cell.metadata = NotebookNode()
    for number, cell in enumerate(by_name.cells):
        cell.metadata, cell.id = NotebookNode(), f"other-{number}"
    for notebook in (by_id, by_name):
        repairs = repair(notebook, model)
        assert ids(notebook) == ids(model)
        assert {cell.source for cell in notebook.cells} >= {cell.source for cell in model.cells}
        assert repairs
        assert "metadata" in repairs[0].en


def test_a_second_answer_counts_and_the_first_keeps_its_code(model: NotebookNode):
    notebook = copy.deepcopy(model)
    twin = copy.deepcopy(notebook.cells[place(notebook, "s2-merge-answer")])
    twin.id, twin.source = "twin", "def merge_states(a, b):\n    return a"
    notebook.cells.append(twin)
    repair(notebook, model)
    assert sorted(ids(notebook)) == sorted(ids(model))
    assert notebook.cells[place(notebook, "s2-merge-answer")].source == twin.source
    assert any("NotImplementedError" in cell.source and "merge_states" in cell.source for cell in notebook.cells)


def test_check_cells_come_back_whole_once_and_in_order(model: NotebookNode):
    notebook = copy.deepcopy(model)
    first, second = place(notebook, "s2-update"), place(notebook, "s2-traffic")
    notebook.cells[first], notebook.cells[second] = notebook.cells[second], notebook.cells[first]
    del notebook.cells[place(notebook, "s2-forward")]
    notebook.cells[place(notebook, "s2-tiles")].source = "10"
    notebook.cells[place(notebook, "s2-tiles")].metadata.nbgrader.points = 99
    said = " ".join(text.en for text in repair(notebook, model))
    graded = [id for id in ids(notebook) if not id.endswith(("-answer", "-setup"))]
    assert graded == [id for id in ids(model) if not id.endswith(("-answer", "-setup"))]
    tiles = notebook.cells[place(notebook, "s2-tiles")]
    assert (tiles.source, tiles.metadata.nbgrader.points) == ('check("s2-tiles")', 10)
    for word in ("deleted", "edited", "order"):
        assert word in said


def test_cells_of_another_assignment_stay_as_code(model: NotebookNode):
    notebook = copy.deepcopy(model)
    stranger = new_code_cell("x = 1", metadata={"nbgrader": {"grade_id": "hw7", "grade": True, "points": 50}})
    notebook.cells.append(stranger)
    repair(notebook, model)
    CheckCellMetadata().preprocess(notebook, {})
    assert notebook.cells[-1].source == "x = 1"
    assert "nbgrader" not in notebook.cells[-1].metadata


def test_a_learner_gives_no_cell_a_role(model: NotebookNode):
    own = {"schema_version": 3, "grade_id": "by-hand", "grade": True, "solution": False, "locked": True, "task": False,
           "cell_type": "code", "points": 5}  # fmt: skip
    model.cells.append(new_code_cell("assert softmax", metadata={"nbgrader": own}))
    notebook = copy.deepcopy(model)
    notebook.cells[-1].metadata["flashdojo"] = {"role": "check"}  # such cells are not run again beside those by hand
    notebook.cells.insert(0, new_code_cell("x = 1", metadata={"flashdojo": "no table"}))
    repair(notebook, model)
    assert "flashdojo" not in notebook.cells[-1].metadata
    assert "flashdojo" not in notebook.cells[0].metadata


def test_an_empty_notebook_becomes_the_released_one(model: NotebookNode):
    notebook = new_notebook()
    repair(notebook, model)
    assert ids(notebook) == ids(model)
    CheckCellMetadata().preprocess(notebook, {})
