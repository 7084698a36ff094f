"""What to do next: the failures of a submission as steps, the cause before what follows from it.

Failures that show one wrong idea are one step, in whichever exercise they show. A failure that rests on another
exercise which fails too belongs to that exercise's step: it may well go away with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.subject import Where, position
from grader.text import Text, say
from grader.views.content import ABSENT, Block, Line

WRONG = ("failed", "error", "timeout")
UNFINISHED = {
    "error": ("{name} 运行出错", "{name} ends in an error"),
    "timeout": ("{name} 没有按时返回", "{name} does not come back in time"),
}


@dataclass
class Step:
    block: Block
    lines: list[Line]  # of this exercise, each with evidence of its own; the first gives the step its name
    follows: list[Line] = field(default_factory=list)  # in other exercises; to be seen to last
    points: float = 0.0  # at stake, with the checks that wait
    hidden: bool = False
    unwritten: tuple[Block, ...] = ()

    @property
    def place(self) -> Text | None:
        """Where in the submission, when the grader knows."""
        where = next((line.place for line in self.lines if line.place), None)
        return position(Where(**where)) if where and not self.hidden and not self.unwritten else None

    @property
    def consequences(self) -> list[tuple[str, int]]:
        """The exercises of the failures that follow, and how many of their checks."""
        return list(Counter(line.id.split(".")[0] for line in self.follows).items())

    @property
    def title(self) -> Text:
        lead = self.lines[0]
        if self.hidden:
            return say("一项不公开的检查没有通过：{it}", "A hidden check of {it} failed", it=lead.title)
        if lead.idea:
            return lead.idea[0]
        if lead.status == "failed":
            return say("还不对：{it}", "Not right yet: {it}", it=lead.title)
        return say(*UNFINISHED[lead.status], name=self.block.name)

    @property
    def explain(self) -> Text | None:
        idea = self.lines[0].idea
        return idea[1] if idea and not self.hidden else None


def steps(entry: Mapping[str, Any], blocks: Sequence[Block]) -> list[Step]:
    """The steps of one submission, in the order of the course; what was not written comes last."""
    checks = {check["id"]: check for row in entry["exercises"] for check in row["checks"]}
    found: list[Step] = []
    by_idea: dict[str, Step] = {}
    of_exercise: dict[str, Step] = {}
    for block in blocks:
        if block.untouched:
            continue
        for line in block.lines:
            if line.status not in WRONG:
                continue
            check = checks[line.id]
            step = _step_for(line, block, check, by_idea, of_exercise)
            if step is None:
                step = Step(block, [], hidden=check["visibility"] == "hidden")
                found.append(step)
                of_exercise.setdefault(block.id, step)
            (step.lines if step.block is block else step.follows).append(line)
            step.points += line.points
            if line.misconception and not step.hidden:
                by_idea.setdefault(line.misconception, step)
            of_exercise.setdefault(block.id, step)
        if block.id in of_exercise:
            of_exercise[block.id].points += _waiting(block)
    found.sort(key=lambda step: step.hidden)
    absent = tuple(block for block in blocks if block.untouched)
    if absent:
        found.append(Step(absent[0], [absent[0].problems[0]], unwritten=absent, points=_points(absent)))
    return found


def _step_for(
    line: Line, block: Block, check: Mapping[str, Any], by_idea: dict[str, Step], of_exercise: dict[str, Step]
) -> Step | None:
    """The step that this failure belongs to, when there is one already."""
    if check["visibility"] == "hidden":
        return None
    if line.misconception in by_idea and line.misconception not in ABSENT:
        return by_idea[line.misconception]
    for cause in check["evidence"].get("rests_on", ()):
        if cause in of_exercise:
            return of_exercise[cause]
    mine = of_exercise.get(block.id)
    if mine and not mine.hidden and mine.block is block and line.misconception is None:
        return mine if mine.lines[0].idea is None else None
    return None


def _waiting(block: Block) -> float:
    return sum(line.points for line in block.lines if line.status == "blocked")


def _points(blocks: Iterable[Block]) -> float:
    return sum(line.points for block in blocks for line in block.lines)
