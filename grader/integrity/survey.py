"""A class: every submission against the published solutions, and against everybody else's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from grader.batch.intake import Entry
from grader.course import catalog, notebooks
from grader.course.catalog import Exercise
from grader.integrity.compare import Print, Share, Stretch, can_be_alike, share, stretches
from grader.integrity.shape import Token, tokens_of
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.text import LANGUAGES, Text, say

OnProgress = Callable[[int, int, dict[str, str]], None]


@dataclass(frozen=True)
class Paper:
    """One submission with its tokens."""

    student: str
    program: Program
    tokens: Sequence[Token]

    @property
    def path(self) -> str:
        return submission.shown(self.program.path)


@dataclass(frozen=True)
class Pair:
    """Two submissions, or one and the published solutions."""

    one: Paper
    other: Paper
    of_one: Share  # of its own code that stands in the other
    of_other: Share

    @property
    def degree(self) -> float:
        return max(self.of_one.degree, self.of_other.degree)

    @property
    def exercises(self) -> list[str]:
        """The names of those that are alike by themselves."""
        alike = {*self.of_one.parts_alike, *self.of_other.parts_alike}
        return [name for name in contract() if name in alike]

    @property
    def worth_a_look(self) -> bool:
        return self.of_one.worth_a_look or self.of_other.worth_a_look


@dataclass
class Survey:
    papers: list[Paper] = field(default_factory=list)
    published: list[Pair] = field(default_factory=list)  # like the published solutions, the most alike first
    pairs: list[Pair] = field(default_factory=list)  # like each other
    unread: list[tuple[Entry, Text]] = field(default_factory=list)

    @property
    def groups(self) -> list[list[str]]:
        """Three learners and more whose pairs hang together, the largest group first: one answer that went round."""
        together: dict[str, set[str]] = {}
        for pair in self.pairs:
            names = {pair.one.student, pair.other.student}
            merged = names.union(*(together.get(name, set()) for name in names))
            together |= dict.fromkeys(merged, merged)
        found = {tuple(sorted(group)) for group in together.values() if len(group) > 2}
        return [list(group) for group in sorted(found, key=lambda group: (-len(group), group))]


def survey(entries: Sequence[Entry], on_progress: OnProgress | None = None) -> Survey:
    """What is worth a look. Two files of one student are not compared. What a submission shares with the published
    solutions is told there, and does not count again between students."""
    result = Survey()
    for done, entry in enumerate(entries, 1):
        try:
            result.papers.append(read(entry))
        except Unreadable as error:
            result.unread.append((entry, error.message))
        if on_progress:
            on_progress(done, len(entries), {"student": entry.student, "path": str(entry.path)})
    skeletons, answers = given()
    solution = published()
    result.published = _sorted(_pair(paper, solution, skeletons) for paper in result.papers)
    prints = [Print(paper.tokens, skeletons | answers) for paper in result.papers]
    result.pairs = _sorted(
        Pair(result.papers[a], result.papers[b], share(prints[a], prints[b]), share(prints[b], prints[a]))
        for a, b in combinations(range(len(prints)), 2)
        if result.papers[a].student != result.papers[b].student and can_be_alike(prints[a], prints[b])
    )
    return result


def _pair(one: Paper, other: Paper, handed: frozenset[Stretch]) -> Pair:
    first, second = Print(one.tokens, handed), Print(other.tokens, handed)
    return Pair(one, other, share(first, second), share(second, first))


def _sorted(pairs: Iterable[Pair]) -> list[Pair]:
    found = [pair for pair in pairs if pair.worth_a_look]
    return sorted(found, key=lambda pair: (-pair.degree, pair.one.student, pair.other.student))


def read(entry: Entry) -> Paper:
    """Raises :class:`Unreadable`."""
    job = entry.job()
    if job.problem is not None:
        raise Unreadable(job.problem)
    program = submission.parsed(job.path, job.data)
    try:
        return Paper(entry.student, program, tokens_of(program, contract().keys()))
    except RecursionError:
        raise Unreadable(
            say("{path}：代码嵌套过深，无法比较。", "{path}: nested too deeply to be compared.", path=job.path)
        ) from None


@functools.cache
def contract() -> dict[str, Exercise]:
    """The exercises by the names that submissions have to define."""
    course = catalog.load(checks=False)
    return {exercise.name: exercise for stage in course.stages for exercise in stage.exercises}


@functools.cache
def given() -> tuple[frozenset[Stretch], frozenset[Stretch]]:
    """The stretches of every notebook as it is handed out, and those of the published solutions."""
    skeletons: set[Stretch] = set()
    for stage in catalog.load(checks=False).stages:
        for lang in LANGUAGES:
            text = notebooks.text_of(notebooks.build(stage, lang))
            program = submission.parsed(notebooks.path_of(stage, lang), text.encode())
            skeletons |= stretches(tokens_of(program, contract().keys())).keys()
    return frozenset(skeletons), frozenset(stretches(published().tokens).keys())


@functools.cache
def published() -> Paper:
    """All worked solutions as one program."""
    parts = [exercise.solution.read_text("utf-8") for exercise in contract().values()]
    program = submission.parsed(Path("solutions.py"), "\n\n".join(parts).encode())
    return Paper("", program, tokens_of(program, contract().keys()))
