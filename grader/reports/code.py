"""The learner's code beside a verdict: the lines that failed, or the definition that was judged."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from grader.batch.intake import again
from grader.reading import submission
from grader.reading.submission import Cell, Program, Unreadable
from grader.subject import Where, position
from grader.text import Text

LONGEST = 60  # lines of a definition that are shown whole
AROUND = 8  # lines before and after a marked one in a longer definition


@dataclass(frozen=True)
class Line:
    number: int  # from 1, in its cell or file
    html: Markup
    marked: bool


@dataclass(frozen=True)
class Excerpt:
    place: Text
    lines: list[Line]
    cut: bool  # there is more of the definition than is shown

    @property
    def marked(self) -> bool:
        return any(line.marked for line in self.lines)


def program_of(entry: Mapping[str, Any], folders: Iterable[Path] = ()) -> Program | None:
    """The submission's program, when its file still holds what was graded; None when it is gone or was changed."""
    if not entry["sha256"]:
        return None
    for folder in (Path(), *folders):
        path = folder / entry["path"]
        try:
            data = again(str(path))
            if hashlib.sha256(data).hexdigest() == entry["sha256"]:
                return submission.parsed(path, data)
        except (OSError, ValueError, Unreadable):
            continue
    return None


def excerpt(program: Program, name: str, where: Mapping[str, Any] | None) -> Excerpt | None:
    """Around the place ``where``, else the last definition of ``name``; None when the program has neither."""
    place = Where(**where) if where else None
    if place is not None:
        cell = next((cell for cell in program.cells if cell.number == place.cell), None)
        if cell is None or not 1 <= place.line <= _length(cell):
            return None
        first, last = _around(cell, place.line)
        return _lines(cell, first, last, place.line)
    for cell in reversed(program.cells):
        node = next((node for node in reversed(_definitions(cell)) if node.name == name), None)
        if node is not None:
            return _lines(cell, _first(node), node.end_lineno or node.lineno, None)
    return None


def _definitions(cell: Cell) -> list[ast.FunctionDef | ast.ClassDef]:
    body = cell.tree.body if cell.tree else []
    return [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def _first(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _around(cell: Cell, line: int) -> tuple[int, int]:
    """The definition that holds the line, or its neighbourhood when there is none or it is long."""
    for node in _definitions(cell):
        first, last = _first(node), node.end_lineno or node.lineno
        if first <= line <= last:
            if last - first < LONGEST:
                return first, last
            return max(first, line - AROUND), min(last, line + AROUND)
    return max(1, line - AROUND), min(_length(cell), line + AROUND)


def _length(cell: Cell) -> int:
    """In lines as Python and Pygments count them: a form feed, say, ends none."""
    return cell.source.removesuffix("\n").count("\n") + 1


def _lines(cell: Cell, first: int, last: int, marked: int | None) -> Excerpt:
    end = min(last, first + LONGEST - 1)
    formatter = HtmlFormatter(nowrap=True, classprefix="t-")
    html = highlight(cell.source, PythonLexer(stripnl=False, ensurenl=True), formatter).split("\n")
    lines = [Line(number, Markup(html[number - 1]), number == marked) for number in range(first, end + 1)]
    return Excerpt(position(Where(cell.number, marked or first)), lines, end < last)
