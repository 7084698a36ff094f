"""``reset``: one exercise back to its skeleton, everything else as it is, the old file kept."""

from __future__ import annotations

import ast
import shutil
import stat
import time
from pathlib import Path
from typing import Any

from grader.commands.base import short, stop, tell
from grader.course import catalog, notebooks
from grader.course.catalog import Exercise
from grader.exit_codes import PASSED
from grader.files import write_whole
from grader.progress import FOLDER
from grader.reading import submission
from grader.syntax import tree_of
from grader.text import LANGUAGES, answer_in, language, say


def reset(target: Path, exercise_id: str) -> int:
    exercise = catalog.load(checks=False).exercise(exercise_id)
    answer_in(submission.language_of(target))
    program = submission.read(target)
    if program.stage not in (None, exercise.stage_id):
        stop(
            say(
                "{file} 是阶段 {its} 的笔记本，里面没有 {id}。请指明 {id} 所在的文件。",
                "{file} is a notebook of stage {its}; {id} is not in it. Name the file that holds it.",
                file=short(target),
                its=program.stage,
                id=exercise.id,
            )
        )
    if exercise.is_artifact and target.suffix.lower() != ".ipynb":
        stop(
            say(
                "{id} 的答案是旁边的 {name}，不在 {file} 里；删掉或重写那个文件就行。",
                "the answer to {id} is {name} beside {file}, not in it; remove or rewrite that.",
                id=exercise.id,
                name=exercise.name,
                file=short(target),
            )
        )
    text = _in_notebook(target, exercise) if target.suffix.lower() == ".ipynb" else _in_python(target, exercise)
    backup = _back_up(target)
    write_whole(target, text, stat.S_IMODE(target.stat().st_mode))
    tell(
        say(
            "{id} 已恢复为骨架。原文件备份在 {backup}",
            "{id} is a skeleton again. The old file: {backup}",
            id=exercise.id,
            backup=short(backup),
        )
    )
    if target.suffix.lower() == ".ipynb":
        tell(say("若笔记本开着，请从磁盘重新载入。", "If the notebook is open, reload it from disk."))
    return PASSED


def _in_notebook(target: Path, exercise: Exercise) -> str:
    import nbformat

    notebook = nbformat.read(target, as_version=4)
    own = notebook.metadata.get("flashdojo", {})
    lang = own.get("lang") if own.get("lang") in LANGUAGES else language()
    fresh = notebooks.build(catalog.load(checks=False).stage(exercise.stage_id), lang)
    answer = next(cell for cell in fresh.cells if _is_answer(cell, exercise))
    places = [index for index, cell in enumerate(notebook.cells) if _is_answer(cell, exercise)]
    if places:  # of repeated cells the last one counts
        cell = notebook.cells[places[-1]]
        cell.source, cell.cell_type = answer.source, "code"
        cell.outputs, cell.execution_count = [], None
    else:
        order = [cell.id for cell in fresh.cells]
        before = set(order[: order.index(answer.id)])
        known = [index for index, cell in enumerate(notebook.cells) if cell.get("id") in before]
        notebook.cells.insert(known[-1] + 1 if known else len(notebook.cells), answer)
    return nbformat.writes(notebook) + "\n"


def _is_answer(cell: Any, exercise: Exercise) -> bool:
    own = cell.metadata.get("flashdojo", {})
    if own.get("exercise") == exercise.id and own.get("role") == "answer":
        return True
    return cell.metadata.get("nbgrader", {}).get("grade_id") == exercise.id


def _in_python(target: Path, exercise: Exercise) -> str:
    text = target.read_text("utf-8-sig")
    try:
        tree = tree_of(text)
    except SyntaxError as error:
        stop(
            say(
                "{file} 第 {line} 行有语法错误，找不到 {name} 的范围。请先改正它。",
                "{file}, line {line}: a syntax error, so the extent of {name} cannot be found. Correct it first.",
                file=short(target),
                line=error.lineno or 1,
                name=exercise.name,
            )
        )
    lines = text.splitlines()
    skeleton = notebooks.skeleton(exercise, language()).rstrip().splitlines()
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == exercise.name
    ]
    if not found:
        return "\n".join([*lines, "", "", *skeleton]) + "\n"
    node = found[-1]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join([*lines[: first - 1], *skeleton, *lines[node.end_lineno :]]) + "\n"


def _back_up(target: Path) -> Path:
    folder = target.parent / FOLDER / "backup"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    backup = folder / f"{target.stem}-{stamp}{target.suffix}"
    number = 1
    while backup.exists():
        number += 1
        backup = folder / f"{target.stem}-{stamp}-{number}{target.suffix}"
    shutil.copy2(target, backup)
    return backup
