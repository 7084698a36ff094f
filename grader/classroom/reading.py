"""Submissions that cannot be read as notebooks, and what the learner was given."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from traitlets.config import Config

from grader.reading import submission
from grader.reading.submission import Unreadable
from grader.text import say

UNREADABLE = "flashdojo_unreadable"  # notebook metadata: why, as {zh, en}
REPAIRS = "flashdojo_repairs"  # notebook metadata: what was done, as a list of {zh, en}


class SturdyExporter(NotebookExporter):
    """Reads a submission whatever it is: of a broken file an empty notebook is made that says why. nbgrader would stop
    grading this student, and end the batch with an error."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **more: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        path = Path(filename)
        try:
            submission.require_notebook(path)
            notebook = nbformat.read(path, as_version=4)
            if path.parents[2].name == "submitted":  # nobody but the learner wrote it
                _distrust(notebook)
            nbformat.validate(notebook, relax_add_props=True)  # as nbconvert does, which would raise
        except Unreadable as error:
            notebook = new_notebook(metadata={UNREADABLE: error.message.to_json()})
        except Exception as error:  # nbformat, on what is JSON with cells but no notebook
            notebook = new_notebook(metadata={UNREADABLE: not_a_notebook(path, error)})
        result: tuple[NotebookNode, dict[str, Any]] = self.from_notebook_node(notebook, resources=resources, **more)
        return result


def _distrust(notebook: NotebookNode) -> None:
    """Take out what only the grader may say, and outputs, which count for nothing and need not even be valid."""
    for name in (UNREADABLE, REPAIRS):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        if cell.get("cell_type") == "code":
            cell.outputs, cell.execution_count = [], None


def not_a_notebook(path: Path, error: Exception) -> dict[str, str]:
    return say(
        "{path}：不是有效的 Jupyter 笔记本（{why}），请在 Jupyter 里重新保存后再交。",
        "{path}: not a valid Jupyter notebook ({why}); save it again from Jupyter and hand that in.",
        path=submission.shown(path),
        why=" ".join(str(error).split())[:120],
    ).to_json()


@functools.lru_cache(maxsize=8)
def _released(file: Path, changed: int) -> NotebookNode:
    from nbgrader.preprocessors import ClearOutput, ClearSolutions

    notebook = nbformat.read(file, as_version=4)
    if file.parent.parent.name == "source":
        notebook, _ = ClearSolutions(parent=None, config=Config()).preprocess(notebook, {})
    notebook, _ = ClearOutput().preprocess(notebook, {})
    return notebook


def given(course: Path, assignment: str, notebook: str) -> NotebookNode | None:
    """The notebook as learners got it: the release, else the source without its solutions; None when there is neither.

    A fresh copy. The source stays with the judge: nothing of its solutions can come into a submission this way.
    """
    for folder in ("release", "source"):
        file = course / folder / assignment / f"{notebook}.ipynb"
        if file.is_file():
            return nbformat.from_dict(_released(file, file.stat().st_mtime_ns))
    return None
