"""Before nbgrader looks: put a submission's notebook back into the shape it was given out in.

Cells that were duplicated, deleted, reordered, retyped, or that lost nbgrader's metadata stop nbgrader's whole batch
(jupyter/nbgrader#1941). Here they are repaired for one learner at a time, and the notebook says what was done. Code is
never thrown away: a cell that does not belong loses its metadata only.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from grader.classroom.reading import REPAIRS, UNREADABLE, given
from grader.reading.magics import parse
from grader.text import Text, say


class RepairCells(NbGraderPreprocessor):
    """The first of the sanitising preprocessors that cares about metadata."""

    course = Unicode(help="The course folder").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        told = resources["nbgrader"]
        model = given(Path(self.course), told["assignment"], told["notebook"])
        if model is None:
            return nb, resources
        repairs = repair(nb, model)
        for text in repairs:
            self.log.warning("%s: %s", told["student"], text.en)
        nb.metadata[REPAIRS] = [text.to_json() for text in repairs]
        reasons = [Text(**nb.metadata[UNREADABLE])] if UNREADABLE in nb.metadata else []
        if repairs or reasons:
            nb.cells.insert(0, _notice([*reasons, *repairs]))
        return nb, resources


def repair(nb: NotebookNode, model: NotebookNode) -> list[Text]:
    """Make ``nb`` hold every graded, locked or solution cell of ``model`` once, in order, with its metadata.

    Returns what was done.
    """
    repairs: list[Text] = []
    wanted = {id: cell for cell in model.cells if (id := _grade_id(cell))}
    places = _places(nb, wanted, repairs)
    for name in ("kernelspec", "language_info", "flashdojo"):
        if name in model.metadata:
            nb.metadata[name] = model.metadata[name]
    for id, cell in places.items():
        _restore(cell, wanted[id], id, repairs)
    _insert_missing(nb, model, places, repairs)
    _put_in_order(nb, [id for id in wanted if id in places], places, repairs)
    return repairs


def _grade_id(cell: NotebookNode) -> str | None:
    own = cell.metadata.get("nbgrader")
    id = own.get("grade_id") if isinstance(own, dict) else None
    return id if isinstance(id, str) and id else None


def _places(nb: NotebookNode, wanted: dict[str, NotebookNode], repairs: list[Text]) -> dict[str, NotebookNode]:
    """The cell that stands for each id: by its grade_id, else by what else tells it. The last one counts, as it does
    when a notebook runs; of a locked cell any will do."""
    found: dict[str, list[NotebookNode]] = {}
    for cell in nb.cells:
        if not isinstance(cell.metadata.get("flashdojo", {}), dict):
            del cell.metadata["flashdojo"]
        id = _grade_id(cell)
        if id is not None and id not in wanted:
            repairs.append(say("单元 {id} 不属于这份作业。", "cell {id} is none of this assignment's.", id=id))
        if id in wanted:
            found.setdefault(id, []).append(cell)
        else:
            cell.metadata.pop("nbgrader", None)
    for id, model in wanted.items():
        lost = [cell for cell in nb.cells if _grade_id(cell) is None and _is(cell, model)]
        if id not in found and lost:
            found[id] = [lost[-1]]
            repairs.append(say("单元 {id} 丢失了元数据，已补上。", "cell {id} had lost its metadata.", id=id))
    for id, cells in found.items():
        for spare in cells[:-1]:
            spare.metadata.pop("nbgrader", None)
            spare.metadata.pop("flashdojo", None)
        if len(cells) > 1:
            repairs.append(
                say(
                    "单元 {id} 出现了 {n} 次，以最后一个为准。",
                    "cell {id} occurs {n} times; the last one counts.",
                    id=id,
                    n=len(cells),
                )
            )
            if not wanted[id].metadata.nbgrader.get("solution"):  # copies of what is locked say nothing of their own
                nb.cells = [cell for cell in nb.cells if all(cell is not spare for spare in cells[:-1])]
    return {id: cells[-1] for id, cells in found.items()}


def _is(cell: NotebookNode, model: NotebookNode) -> bool:
    """Whether a cell without nbgrader metadata is, or was, the model's."""
    if "id" in model and cell.get("id") == model["id"]:
        return True
    if model.metadata.get("flashdojo") and cell.metadata.get("flashdojo") == model.metadata["flashdojo"]:
        return model.cell_type == "code" and model.metadata["flashdojo"].get("role") in ("setup", "answer", "check")
    if not model.metadata.nbgrader.get("solution"):
        return cell.cell_type == model.cell_type and cell.source.strip() == model.source.strip() != ""
    names = _defined(model.source)
    return bool(names) and names <= _defined(cell.source)


def _defined(source: str) -> set[str]:
    tree = parse(source)
    body = tree.body if isinstance(tree, ast.Module) else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _restore(cell: NotebookNode, model: NotebookNode, id: str, repairs: list[Text]) -> None:
    if cell.cell_type != model.cell_type:
        repairs.append(
            say(
                "单元 {id} 被改成了 {kind} 单元，已改回。",
                "cell {id} had become a {kind} cell.",
                id=id,
                kind=cell.cell_type,
            )
        )
        cell.cell_type = model.cell_type
        for name, value in (("outputs", []), ("execution_count", None)):
            if model.cell_type == "code":
                cell[name] = value
            else:
                cell.pop(name, None)
    locked = model.metadata.nbgrader.get("locked") and not model.metadata.nbgrader.get("solution")
    if locked and cell.source != model.source:
        repairs.append(say("单元 {id} 被改动过，已恢复原样。", "cell {id} had been edited and is as it was.", id=id))
        cell.source = model.source
    for name in ("nbgrader", "flashdojo"):
        cell.metadata.pop(name, None)
        if name in model.metadata:
            cell.metadata[name] = model.metadata[name]


def _insert_missing(
    nb: NotebookNode, model: NotebookNode, places: dict[str, NotebookNode], repairs: list[Text]
) -> None:
    """After the cell before it in the model; cells of the model that are only text are not missed."""
    before: NotebookNode | None = None
    for cell in model.cells:
        id = _grade_id(cell)
        if id is None:
            continue
        if id not in places:
            position = next((i + 1 for i, other in enumerate(nb.cells) if other is before), 0)
            nb.cells.insert(position, cell)
            places[id] = cell
            if UNREADABLE not in nb.metadata:
                repairs.append(say("单元 {id} 被删掉了，已补上。", "cell {id} had been deleted and is back.", id=id))
        before = places[id]


def _put_in_order(nb: NotebookNode, ids: list[str], places: dict[str, NotebookNode], repairs: list[Text]) -> None:
    """Graded and locked cells stand in the model's order; answers stay where the learner wants them to run."""
    fixed = [id for id in ids if not places[id].metadata.nbgrader.get("solution")]
    order = {id(places[name]): number for number, name in enumerate(fixed)}
    slots = [i for i, cell in enumerate(nb.cells) if id(cell) in order]
    cells = [nb.cells[i] for i in slots]
    ordered = sorted(cells, key=lambda cell: order[id(cell)])
    if any(a is not b for a, b in zip(cells, ordered, strict=True)):
        for slot, cell in zip(slots, ordered, strict=True):
            nb.cells[slot] = cell
        repairs.append(say("检查单元的次序被打乱，已恢复。", "the check cells were out of order and are back in it."))


def _notice(texts: list[Text]) -> NotebookNode:
    lines = "".join(f"\n- {text.zh} {text.en}" for text in texts)
    return new_markdown_cell(f"**FlashDojo**\n{lines}")
