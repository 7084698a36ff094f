"""What a class knows and does not know, counted from the submissions of one stage."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.course import catalog
from grader.reports.steps import WRONG
from grader.results import FINE
from grader.text import Text
from grader.views.content import ABSENT

REFUSED = "forbidden-"  # how the ideas begin that are about what may not be used
BINS = 10  # of the distribution; full marks are a bin of their own


@dataclass(frozen=True)
class Cell:
    """One learner and one concept. ``state``: ok, part, no, open (nothing was judged: unwritten or waiting), none."""

    state: str
    passed: int
    total: int


@dataclass
class Learner:
    entry: Mapping[str, Any]
    place: int  # in the document's submissions
    cells: dict[str, Cell]

    @property
    def share(self) -> float:
        return self.entry["score"] / self.entry["max_score"] if self.entry["max_score"] else 0.0


@dataclass
class Concept:
    id: str
    title: Text
    counts: Counter[str]

    @property
    def missed(self) -> int:
        return self.counts["no"] + self.counts["part"]


@dataclass
class Mistake:
    """A wrong idea, and in whose work it shows."""

    id: str
    title: Text
    explain: Text
    exercises: list[str] = field(default_factory=list)
    learners: list[Learner] = field(default_factory=list)


@dataclass
class Hard:
    """A check by how many passed of those it could judge."""

    id: str
    title: Text
    hidden: bool
    passed: int = 0
    failed: int = 0
    ideas: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.passed / (self.passed + self.failed)


@dataclass
class Cohort:
    stage: catalog.Stage
    learners: list[Learner]  # the best first
    concepts: list[Concept]  # the least understood first
    mistakes: list[Mistake]  # the most frequent first
    unwritten: list[tuple[str, int]]  # exercise, how many did not write it
    hardest: list[Hard]
    bins: list[int]  # shares of the points from 0 in steps of a tenth, then full marks

    @property
    def median(self) -> float:
        return statistics.median(learner.entry["score"] for learner in self.learners)

    @property
    def max_score(self) -> float:
        return max(learner.entry["max_score"] for learner in self.learners)

    @property
    def full(self) -> int:
        return self.bins[-1]


def cohorts(document: Mapping[str, Any]) -> list[Cohort]:
    """One for each stage that somebody's work was graded for, in the order of the course."""
    course = catalog.load(strict=False, checks=False)
    graded = [(place, entry) for place, entry in enumerate(document["submissions"]) if entry["exercises"]]
    return [
        _cohort(stage, rows)
        for stage in course.stages
        if (rows := [(place, entry) for place, entry in graded if entry["stage"] in (stage.id, stage.folder)])
    ]


def _cohort(stage: catalog.Stage, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Cohort:
    learners = [Learner(entry, place, _cells(entry)) for place, entry in rows]
    learners.sort(key=lambda learner: (-learner.share, learner.entry["student"]))
    ids = list(dict.fromkeys(check["concept"] for _, entry in rows for check in _checks(entry)))
    concepts = [
        Concept(
            id,
            stage.concepts.get(id, Text(id, id)),
            Counter(learner.cells[id].state for learner in learners if id in learner.cells),
        )
        for id in ids
    ]
    concepts = [concept for concept in concepts if set(concept.counts) != {"none"}]
    concepts.sort(key=lambda concept: -concept.missed)
    bins = [0] * (BINS + 1)
    for learner in learners:
        bins[min(int(learner.share * BINS + 1e-9), BINS)] += 1
    return Cohort(
        stage, learners, concepts, _mistakes(stage, learners), _unwritten(learners), _hardest(stage, learners), bins
    )


def _checks(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [check for exercise in entry["exercises"] for check in exercise["checks"]]


def _cells(entry: Mapping[str, Any]) -> dict[str, Cell]:
    results: dict[str, list[str]] = {}
    for check in _checks(entry):
        results.setdefault(check["concept"], []).append(_result(check))
    return {concept: _cell([one for one in each if one != "none"]) for concept, each in results.items()}


def _result(check: Mapping[str, Any]) -> str:
    """ok, no, open, none. A failure that rests on another exercise's, or code that was refused unrun, says nothing
    about the check's own idea."""
    if check["status"] in FINE:
        return "ok" if check["status"] == "passed" else "none"
    idea = check["misconception"] or ""
    if check["status"] not in WRONG or idea in ABSENT or idea.startswith(REFUSED):
        return "open"
    return "open" if _causes(check) else "no"


def _cell(each: Sequence[str]) -> Cell:
    passed, failed = each.count("ok"), each.count("no")
    if not each:
        return Cell("none", 0, 0)
    if failed:
        return Cell("part" if passed else "no", passed, len(each))
    return Cell("ok" if passed == len(each) else "open", passed, len(each))


def _mistakes(stage: catalog.Stage, learners: Sequence[Learner]) -> list[Mistake]:
    found: dict[str, Mistake] = {}
    for learner in sorted(learners, key=lambda learner: learner.place):
        explained: set[str] = set()  # exercises in which this learner's own wrong idea is known
        for exercise in learner.entry["exercises"]:
            for check in exercise["checks"]:
                id = check["misconception"]
                if id not in stage.misconceptions or id in ABSENT or check["status"] not in WRONG:
                    continue
                if explained.intersection(_causes(check)):
                    continue
                explained.add(exercise["id"])
                known = stage.misconceptions[id]
                mistake = found.setdefault(id, Mistake(id, known.title, known.explain))
                if exercise["id"] not in mistake.exercises:
                    mistake.exercises.append(exercise["id"])
                if learner not in mistake.learners:
                    mistake.learners.append(learner)
    return sorted(found.values(), key=lambda mistake: -len(mistake.learners))


def _causes(check: Mapping[str, Any]) -> Sequence[str]:
    return check["evidence"].get("rests_on", ())


def _unwritten(learners: Sequence[Learner]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for learner in learners:
        for exercise in learner.entry["exercises"]:
            results = [_result(check) for check in exercise["checks"]]
            absent = any(check["misconception"] in ABSENT for check in exercise["checks"])
            counts[exercise["id"]] += absent and "ok" not in results and "no" not in results
    return [(id, count) for id, count in counts.items() if count]


def _hardest(stage: catalog.Stage, learners: Sequence[Learner]) -> list[Hard]:
    found: dict[str, Hard] = {}
    for learner in learners:
        for check in _checks(learner.entry):
            result = _result(check)
            if result not in ("ok", "no"):
                continue
            title = stage.concepts.get(check["concept"], Text(check["concept"], check["concept"]))
            hard = found.setdefault(check["id"], Hard(check["id"], title, check["visibility"] == "hidden"))
            hard.passed += result == "ok"
            hard.failed += result == "no"
            if result == "no" and check["misconception"] in stage.misconceptions:
                hard.ideas[check["misconception"]] += 1
    return sorted((hard for hard in found.values() if hard.failed), key=lambda hard: (hard.share, -hard.failed))
