"""What a view shows of one submission: the result document's numbers joined with the catalog's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.course import catalog
from grader.results import FINE, NOTHING_TO_SAY
from grader.subject import Where, position
from grader.text import Text, listed, say
from grader.views.facts import as_number, facts

MARKS = {"passed": "✓", "failed": "✗", "error": "!", "timeout": "∞", "blocked": "·", "not_measured": "○"}

STATUS = {
    "passed": say("通过", "passed"),
    "failed": say("未通过", "failed"),
    "error": say("出错", "error"),
    "timeout": say("超时", "timed out"),
    "blocked": say("等待前一项", "waits for another check"),
    "not_measured": say("本机未测", "not measured here"),
}

COLON = say("：", ": ")
ABSENT = ("missing", "not-implemented", "artifact-missing")


@dataclass(frozen=True)
class Line:
    """One check as a learner reads it."""

    id: str
    status: str
    title: Text
    earned: float
    points: float
    message: Text
    misconception: str | None = None
    idea: tuple[Text, Text] | None = None  # the misconception's name, and what is wrong with it
    facts: list[tuple[Text, str]] = field(default_factory=list)
    where: Text | None = None
    place: Mapping[str, Any] | None = None  # the same as the document has it, told or not
    tiles: Mapping[str, Any] | None = None
    tolerance: float | None = None
    repeats: bool = False  # an earlier check of the exercise says the very same
    shares_title: bool = False  # another check of the exercise is about the same idea

    @property
    def name(self) -> str:
        return self.id.split(".", 1)[-1]

    @property
    def remark(self) -> Text | None:
        """What a check that passed has to say all the same."""
        return self.message if self.status == "passed" and self.message != NOTHING_TO_SAY else None

    @property
    def mark(self) -> str:
        return MARKS.get(self.status, "?")


@dataclass(frozen=True)
class Block:
    """One exercise."""

    id: str
    title: Text
    name: str
    score: float
    max_score: float
    lines: list[Line]
    hints: tuple[Text, ...]
    points: float  # of the whole exercise, hidden checks included

    @property
    def passed(self) -> bool:
        return all(line.status in FINE for line in self.lines)

    @property
    def untouched(self) -> bool:
        """Nothing has been written for it."""
        return bool(self.lines) and all(line.misconception in ABSENT or line.status == "blocked" for line in self.lines)

    @property
    def problems(self) -> list[Line]:
        """What to look at, the cause before what follows from it."""
        order = {"failed": 0, "error": 0, "timeout": 0, "blocked": 1}
        return sorted((line for line in self.lines if line.status in order), key=lambda line: order[line.status])

    @property
    def waiting(self) -> Text | None:
        """The checks that wait, in one line, with what they wait for."""
        lines = [line for line in self.lines if line.status == "blocked"]
        if not lines:
            return None
        said = " ".join(line.message.en for line in lines)
        causes = [line.name for line in self.lines if re.search(rf"{re.escape(line.id)}(?![\w-])", said)]
        n, points = len(lines), number(sum(line.points for line in lines))
        return say(
            "另有 {n} 项检查等待 {causes} 通过（0/{points} 分）",
            "{n} more {waits} for {causes} (0/{points} points)",
            n=n,
            waits="waits" if n == 1 else "wait",
            causes=listed(causes),
            points=points,
        )


def number(value: float) -> str:
    """Points without noise: ``30``, ``12.5``."""
    return f"{round(float(value), 2):g}"


def blocks(submission: Mapping[str, Any], *, live: bool = False) -> list[Block]:
    """The exercises of one element of ``submissions``. ``live``: cells are counted by execution, as In [n] shows."""
    return [_block(exercise, live) for exercise in submission["exercises"]]


def not_a_grade(shown: Sequence[Block]) -> Text:
    """What stands under the answer of the public checks."""
    hidden = sum(block.points - block.max_score for block in shown)
    if hidden > 0:
        return say(
            "这是公开检查的即时反馈，不是成绩；另有 {n} 分由隐藏检查评定。",
            "Instant feedback from the public checks, not a grade; hidden checks decide {n} more points.",
            n=number(hidden),
        )
    return say("这是即时反馈，不是成绩。", "Instant feedback, not a grade.")


def ideas(submission: Mapping[str, Any]) -> list[Text]:
    """The wrong ideas, each once with the exercise where it shows first; then what was not written."""
    found: dict[str, Text] = {}
    absent: list[str] = []
    for exercise in submission["exercises"]:
        stage = _course().stage(exercise["id"].split("-")[0])
        name = exercise["id"].split("-", 1)[1]
        for check in exercise["checks"]:
            idea = check.get("misconception")
            if check["status"] == "passed" or idea not in stage.misconceptions:
                continue
            if idea in ABSENT:
                absent.append(name)
            else:
                title = stage.misconceptions[idea].title
                found.setdefault(idea, Text(f"{name}：{title.zh}", f"{name}: {title.en}"))
    if absent:
        found[""] = say("没有写：{names}", "not written: {names}", names=listed(dict.fromkeys(absent)))
    return list(found.values())


def _course() -> catalog.Catalog:
    return catalog.load(strict=False, checks=False)  # titles and texts; a view never refuses to show


def _block(exercise: Mapping[str, Any], live: bool) -> Block:
    known = _course().exercise(exercise["id"])
    stage = _course().stage(known.stage_id)
    lines: list[Line] = []
    titles = {
        check["id"]: stage.concepts.get(check["concept"], Text(*[check["concept"]] * 2)) for check in exercise["checks"]
    }
    seen: set[tuple[str, str | None]] = set()
    for check in exercise["checks"]:
        misconception = stage.misconceptions.get(check.get("misconception") or "")
        evidence = check.get("evidence") or {}
        message = Text(**check["message"]) if check.get("message") else Text("", "")
        said = (check["status"], message.en)
        repeats = said in seen
        seen.add(said)
        shown = check["status"] in ("failed", "error", "timeout")
        lines.append(
            Line(
                id=check["id"],
                status=check["status"],
                title=titles[check["id"]],
                shares_title=list(titles.values()).count(titles[check["id"]]) > 1,
                earned=check["earned"],
                points=check["points"],
                message=message,
                misconception=check.get("misconception"),
                idea=(misconception.title, misconception.explain) if misconception and shown else None,
                facts=facts(evidence, message, check.get("misconception")) if shown else [],
                where=_where(check, live) if shown else None,
                place=check.get("where") if shown else None,
                tiles=evidence.get("tile_errors") if shown else None,
                tolerance=as_number(evidence.get("tolerance")),
                repeats=repeats and shown,
            )
        )
    return Block(
        known.id, known.title, known.name, exercise["score"], exercise["max_score"], lines, known.hints, known.points
    )


def _where(check: Mapping[str, Any], live: bool) -> Text | None:
    """The place, unless the message has named it already."""
    where = check.get("where")
    if not where:
        return None
    if live and where["cell"] is not None:
        return say("In [{cell}] 第 {line} 行", "In [{cell}], line {line}", **where)
    place = position(Where(**where))
    return None if place.en in check["message"]["en"] else place
