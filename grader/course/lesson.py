"""The sources of a notebook: solutions (from which skeletons are made), lessons and given cells.

A solution file holds header imports and one exercise's code. ``### BEGIN SOLUTION`` / ``### END SOLUTION`` enclose
what a learner has to write; comment lines ``# zh: ...`` and ``# en: ...`` are kept for one language.

``lesson.zh.md`` and ``lesson.en.md`` hold an introduction and, after ``<!-- exercise: ID -->``, one section per
exercise. ``<!-- picture -->`` and ``<!-- given -->`` are where the stage's ``cells.py`` (or another
``cells_*.py`` of it) puts a cell of that role.
"""

from __future__ import annotations

import ast
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.syntax import tree_of

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
PLACEHOLDER = {"zh": "在这里写代码", "en": "your code here"}
COMMENT_COLUMNS = 92
LOOK_BACK = 24  # columns that a line of a comment may be shorter to end between two words
OPENING, CLOSING = "（「“", "，。；：、）」”！？"
ROLES = ("picture", "given", "given-check")  # of the cells in cells.py
_LANGUAGE_LINE = re.compile(r"^(\s*)# (zh|en): ?(.*)$")
_STEP = re.compile(r"第 \d+ 步|Step \d+")
_SECTION = re.compile(r"^<!-- exercise: (\S+) -->\n", re.M)
_PLACE = re.compile(r"^<!-- (\S+) -->\n?", re.M)
_CELL = re.compile(r"^# %% (\S+) (\S+)\n", re.M)


class LessonError(ValueError):
    """A source of the notebooks is wrong; the message tells its author where and what to change."""


def in_language(source: str, lang: str) -> str:
    """``source`` without the other language's comment lines. Adjacent lines that stay are one paragraph, wrapped anew;
    a line that begins with a step's number starts its own."""
    kept: list[str] = []
    paragraph: list[str] = []
    indent = ""
    for line in [*source.splitlines(), ""]:
        match = _LANGUAGE_LINE.match(line)
        goes_on = match and match[2] == lang and match[1] == indent and not _STEP.match(match[3])
        if paragraph and not goes_on:
            kept += _wrapped(indent, paragraph)
            paragraph = []
        if match is None:
            kept.append(line)
        elif match[2] == lang:
            indent = match[1]
            paragraph.append(match[3].strip())
    return "\n".join(kept).strip("\n") + "\n"


def _wrapped(indent: str, paragraph: list[str]) -> list[str]:
    """A comment on lines of at most COMMENT_COLUMNS columns; Chinese characters are two wide."""
    text = paragraph[0]
    for more in paragraph[1:]:
        text += more if _wide(text[-1]) or _wide(more[0]) else f" {more}"
    hang = "  " if _STEP.match(text) else ""
    lines: list[str] = []
    line: list[str] = []
    for word in re.findall(r"\s*[!-~]+|\s*\S", text):
        too_long = len(indent) + 2 + _columns([*line, word]) > COMMENT_COLUMNS
        if line and too_long and word.strip()[0] not in CLOSING:
            end = _seam([*line, word])
            lines.append("".join(line[:end]))
            first, *rest = [*line[end:], word]
            line = [hang + first.lstrip(), *rest]
        else:
            line.append(word)
    return [f"{indent}# {line}".rstrip() for line in [*lines, "".join(line)]]


def _seam(words: list[str]) -> int:
    """How many words stay on a line that the last one would make too long: up to a space or a mark not far back, so
    that no Chinese word is cut; else all but the last."""
    for end in range(len(words) - 1, 0, -1):
        before, after = words[end - 1], words[end]
        if _columns(words[end:-1]) > LOOK_BACK:
            break
        if after[0].isspace() or after[0] in OPENING or before[-1] in CLOSING:
            return end
    return len(words) - 1


def _columns(words: list[str]) -> int:
    return sum(1 + _wide(char) for word in words for char in word)


def _wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def skeletonise(source: str, lang: str, exercise: str) -> str:
    """The learner's starting point: for each solution region a comment and ``raise NotImplementedError(exercise)``."""
    kept: list[str] = []
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        mark = line.strip()
        if mark == BEGIN and not inside:
            indent = line[: -len(mark)]
            kept += [f"{indent}# {PLACEHOLDER[lang]}", f'{indent}raise NotImplementedError("{exercise}")']
            inside = True
        elif mark == END and inside:
            inside = False
        elif mark in (BEGIN, END):
            raise LessonError(f"{exercise}: line {number}: {mark} without its partner; regions do not nest")
        elif not inside:
            kept.append(line)
    if inside:
        raise LessonError(f"{exercise}: the last {BEGIN} has no {END}")
    if not any("raise NotImplementedError" in line for line in kept):
        raise LessonError(f"{exercise}: no {BEGIN} ... {END}, so the skeleton would be the solution")
    return in_language("\n".join(kept), lang)


def solved(source: str, lang: str) -> str:
    """The worked solution as a learner would read it: no region marks, one language."""
    return in_language("\n".join(line for line in source.splitlines() if line.strip() not in (BEGIN, END)), lang)


def split_header(source: str) -> tuple[list[str], str]:
    """The import statements at the top of a solution, and the rest."""
    imports, first = [], 0
    for node in tree_of(source).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            break
        imports.append(ast.unparse(node))
        first = node.end_lineno or 0
    return imports, "\n".join(source.splitlines()[first:]).strip("\n") + "\n"


def join_headers(imports: Iterable[str]) -> str:
    """Import statements once each, the standard library first."""
    lines = set(imports)
    standard = {line for line in lines if line.split()[1].split(".")[0] in sys.stdlib_module_names}
    blocks = [sorted(standard), sorted(lines - standard)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


@dataclass(frozen=True)
class Piece:
    """A stretch of text (role ``lesson``) or the place of a given cell (role of the cell, no text)."""

    role: str
    text: str = ""


def read_lesson(path: Path) -> tuple[str, dict[str, list[Piece]]]:
    """The introduction, and the pieces of each exercise's section, of a ``lesson.LANG.md``."""
    head, *rest = _SECTION.split(path.read_text(encoding="utf-8"))
    sections: dict[str, list[Piece]] = {}
    for exercise, text in zip(rest[::2], rest[1::2], strict=True):
        if exercise in sections:
            raise LessonError(f"{path.name}: two sections for {exercise}; join them")
        texts = _PLACE.split(text)
        pieces = [Piece("lesson", texts[0].strip())]
        for role, more in zip(texts[1::2], texts[2::2], strict=True):
            if role not in ROLES:
                raise LessonError(f"{path.name}: {exercise}: <!-- {role} --> is none of {', '.join(ROLES)}")
            pieces += [Piece(role), Piece("lesson", more.strip())]
        sections[exercise] = [piece for piece in pieces if piece.role != "lesson" or piece.text]
    return head.strip(), sections


def read_cells(path: Path) -> dict[tuple[str, str], str]:
    """(exercise, role) -> source of the given cells in one ``cells*.py`` of a stage."""
    parts = _CELL.split(path.read_text(encoding="utf-8"))
    cells: dict[tuple[str, str], str] = {}
    for exercise, role, source in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if role not in ROLES or (exercise, role) in cells:
            raise LessonError(f"{path.name}: cell '{exercise} {role}': roles are {', '.join(ROLES)}, one of each")
        cells[exercise, role] = source.strip("\n") + "\n"
    return cells
