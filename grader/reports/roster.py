"""Scores filled into the table that a gradebook exported: the ids, sections and columns stay as they are there.

Canvas and Moodle know their learners by ids that a submission does not carry. Their own export does: a Canvas
gradebook, a Moodle grade export or Moodle's offline grading worksheet. A learner is looked up by every id, name and
address in it, and by the names of downloaded files; who fits no row, or more than one, is left out and said so.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.reports.read import Unusable
from grader.reports.tables import scores_of, stage_title, written
from grader.text import Text, language, listed, say
from grader.views.content import ideas, number

IDENTITY = {
    *("student", "id", "sis user id", "sis login id", "integration id", "lastname", "firstname"),  # Canvas
    *("identifier", "full name", "first name", "last name", "surname", "email address", "id number", "username"),
    *("编号", "全名", "姓名", "名", "姓", "姓氏", "名字", "电子邮件地址", "邮箱", "学号", "用户名", "id号", "标识符"),
}
NAMES = (
    ("first name", "last name"),
    ("first name", "surname"),
    ("firstname", "lastname"),
    ("名字", "姓氏"),
    ("名", "姓"),
)
GRADES = ("grade", "成绩")  # the one column of Moodle's worksheet that is to be filled
FEEDBACK = ("feedback comments", "反馈评论")


@dataclass(frozen=True)
class Filled:
    text: str
    left_out: list[tuple[str, Text]]  # student, why
    without: int  # rows of the table that got no score


def fill(file: Path, document: Mapping[str, Any], column: str | None = None, *, lang: str | None = None) -> Filled:
    """The table in ``file`` with the document's scores; raises :class:`Unusable` when it has no column for them.
    ``column`` names it, else it is the stage's title or, in a worksheet, the grade."""
    lang = lang or language()
    rows, delimiter = _read(file)
    head = rows[0]
    scores, left_out = scores_of(document)
    stages = sorted({stage for points in scores.values() for stage in points})
    if column and len(stages) > 1:
        raise Unusable(
            say(
                "结果文档含有多个阶段（{it}），--column 只用于一个阶段。",
                "the document has several stages ({it}); --column is for one.",
                it=listed(stages),
            )
        )
    columns = {stage: _column(file, head, column, stage, len(stages)) for stage in stages}
    remark = next((place for place, name in enumerate(head) if name.strip().lower() in FEEDBACK), None)
    lookup = _Lookup(head, rows[1:])
    said: dict[str, list[str]] = {}
    for entry in document["submissions"]:
        said.setdefault(entry["student"], []).extend(idea.pick(lang) for idea in ideas(entry))
    taken: dict[int, str] = {}
    for student, points in scores.items():
        found = lookup.find(student)
        if isinstance(found, Text):
            left_out.append((student, found))
            continue
        if found in taken:
            left_out.append((student, say("与 {it} 是同一行", "is in the same row as {it}", it=taken[found])))
            continue
        taken[found] = student
        row = rows[1 + found]
        row += [""] * (len(head) - len(row))
        for stage, score in points.items():
            row[columns[stage]] = number(score)
        if remark is not None and not row[remark]:
            row[remark] = "; ".join(said[student])
    people = sum(bool(_keys(head, row)) and "points possible" not in row[0].lower() for row in rows[1:])
    return Filled(written(rows, delimiter=delimiter, tame=False), left_out, people - len(taken))


def _read(file: Path) -> tuple[list[list[str]], str]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
        first = text.splitlines()[0]
    except (UnicodeDecodeError, IndexError):
        raise Unusable(
            say(
                "{file}：不是 UTF-8 的 CSV 文件。请从 Canvas 或 Moodle 重新导出。",
                "{file}: not a CSV in UTF-8. Export it from Canvas or Moodle again.",
                file=file,
            )
        ) from None
    delimiter = max(",;\t", key=first.count)
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row], delimiter


def _column(file: Path, head: Sequence[str], column: str | None, stage: str, stages: int) -> int:
    wanted = [column] if column else [stage_title(stage), *(GRADES if stages == 1 else ())]
    for name in wanted:
        for place, title in enumerate(head):  # Canvas writes the assignment's id behind its name
            if re.sub(r" \(\d+\)$", "", title.strip()).lower() == name.strip().lower():
                return place
    raise Unusable(
        say(
            "{file}：没有名为 {name} 的列，请用 --column 指定其中之一：{known}",
            "{file}: no column is called {name}; choose one with --column: {known}",
            file=file,
            name=wanted[0],
            known=listed(title for title in head if title.strip().lower() not in {*IDENTITY, "section"}),
        )
    )


class _Lookup:
    """Rows by everything that names a person, as it stands and by the part of an address before the @."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]]):
        self.exact: dict[str, set[int]] = {}
        self.local: dict[str, set[int]] = {}
        for place, row in enumerate(rows):
            for value in _keys(head, row):
                self.exact.setdefault(_plain(value), set()).add(place)
                if "@" in value:
                    self.local.setdefault(_plain(value.split("@")[0]), set()).add(place)

    def find(self, student: str) -> int | Text:
        """The row of a student, or why there is none."""
        places = self.exact.get(_plain(student)) or self.local.get(_plain(student)) or self._downloaded(student)
        if len(places) == 1:
            return next(iter(places))
        if places:
            return say("在名单里对应 {n} 行", "fits {n} rows of the table", n=len(places))
        return say("不在名单里", "is not in the table")

    def _downloaded(self, student: str) -> set[int]:
        """``wangwei_123``, as the downloads of Canvas and Moodle name somebody: the number tells namesakes apart, and
        alone it is nobody's."""
        name, _, number = student.rpartition("_")
        if not number.isdigit():
            return set()
        named = self.exact.get(_plain(name), set())
        numbered = self.exact.get(number, set())
        return named & numbered if numbered else named


def _keys(head: Sequence[str], row: Sequence[str]) -> list[str]:
    """What names the person of this row."""
    named = {title.strip().lower(): value.strip() for title, value in zip(head, row) if value.strip()}
    keys = [value for title, value in named.items() if title in IDENTITY]
    keys += [value.split()[-1] for title, value in named.items() if title in ("identifier", "编号", "标识符")]
    for first, last in NAMES:
        if first in named and last in named:
            keys += [named[first] + named[last], named[last] + named[first]]
    return keys


def _plain(value: str) -> str:
    return re.sub(r"[\W_]+", "", value).casefold()
