"""Whatever was handed in under a notebook's name is read: as itself, or as an empty notebook that says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from grader.classroom.reading import REPAIRS, UNREADABLE, SturdyExporter


def as_read(file: Path, **changes: Any) -> nbformat.NotebookNode:
    """As nbgrader goes on with it: past the preprocessors, behind each of which nbconvert validates."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**new_notebook(cells=[new_code_cell("x = 1")]), **changes}), encoding="utf-8")
    text, _ = SturdyExporter().from_filename(str(file))
    return nbformat.reads(text, as_version=4)


CELL = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None, "source": "x = 1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": [1]},
        {"cells": [{}]},
        {"cells": [{**CELL, "source": None}]},
        {"cells": [{**CELL, "cell_type": "banana"}]},
        {"cells": [{**CELL, "id": 5}]},
        {"cells": [{**CELL, "metadata": {"tags": "x"}}]},
        {"metadata": None},
        {"metadata": {"kernelspec": "x"}},
        {"nbformat": 99},
    ],
)
def test_what_nbconvert_would_stop_at_says_why(tmp_path: Path, changes: dict[str, Any]):
    notebook = as_read(tmp_path / "submitted" / "ada" / "s1" / "s1.ipynb", **changes)
    assert notebook.cells == []
    assert set(notebook.metadata[UNREADABLE]) == {"zh", "en"}


@pytest.mark.parametrize("changes", [{}, {"outputs": [{"output_type": "stream"}]}, {"execution_count": "x"}])
def test_outputs_do_not_matter(tmp_path: Path, changes: dict[str, Any]):
    notebook = as_read(tmp_path / "submitted" / "ada" / "s1" / "s1.ipynb", cells=[CELL | changes])
    assert [cell.source for cell in notebook.cells] == ["x = 1"]


def test_a_learner_cannot_speak_for_the_grader(tmp_path: Path):
    marks = {UNREADABLE: "mine", REPAIRS: [{"zh": "<b>", "en": 5}]}
    notebook = as_read(tmp_path / "submitted" / "ada" / "s1" / "s1.ipynb", metadata=marks)
    assert not {UNREADABLE, REPAIRS} & notebook.metadata.keys()
    own = {UNREADABLE: {"zh": "坏", "en": "bad"}}  # from the first of nbgrader's two rounds
    again = as_read(tmp_path / "autograded" / "ada" / "s1" / "s1.ipynb", metadata=own)
    assert again.metadata == own
