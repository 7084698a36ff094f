"""A batch from its files to its result document: every submission to its end, whatever the others do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import paths, results
from grader.batch import intake, local
from grader.batch.cache import Cache
from grader.batch.intake import Entry
from grader.batch.plan import Job, Plan, Record, ungraded
from grader.course import catalog
from grader.course.private import with_private
from grader.inputs import Secret
from grader.judging.grade import Refused, default_jobs, require_clone
from grader.text import say
from grader.wall.limits import Limits
from grader.wall.workers import Template

OnProgress = Callable[[int, int, dict[str, Any]], None]

SHARE = 4  # submissions that make a further process worth its start


def grade_paths(targets: Sequence[Path | str], *, student: str | None = None, **options: Any) -> dict[str, Any]:
    """The result document for files, folders and zips, in the order given (a folder's files sorted). Options are those
    of :func:`grade_entries`, and so are the errors."""
    return grade_entries(intake.collect(targets, student), **options)


def grade_entries(
    entries: Sequence[Entry],
    *,
    stage: str | None = None,
    secret: Secret | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    cache: Path | None = None,
    require: Collection[str] = (),
    on_progress: OnProgress | None = None,
    on_trouble: Callable[[OSError], None] | None = None,
    only_public: bool = False,
    exercises: Collection[str] | None = None,
    course: Path | None = None,
    checks: Path | None = None,
    limits: Limits | None = None,
    template: Template | None = None,
) -> dict[str, Any]:
    """The result document of these submissions.

    Neither order nor ``jobs`` (default: the cores) nor ``scheduler`` (the address of a Dask scheduler, which then does
    the work) change anything in it but seconds. ``cache``: a folder in which results are kept and found again.
    ``on_trouble`` is told once when they cannot be. ``require``: walls without which nothing is graded.
    ``checks``: a folder of private checks (:mod:`grader.course.private`).
    ``on_progress(done, total, submission)`` comes after each submission. ``template``: one that the caller keeps warm,
    for one job.
    Raises :class:`catalog.UnknownName` for a stage or exercise that is none, :class:`catalog.CatalogError` when the
    course itself is wrong, :class:`PrivateChecksError` when the private checks are,
    :class:`grader.judging.grade.Refused` where grading cannot start, :class:`grader.batch.plan.Lost` when the cluster
    goes away; what was graded until then is kept.
    """
    require_clone()
    known = catalog.load(course or paths.STAGES)
    if checks is not None:
        known = with_private(known, checks)
    plan = Plan(
        stage=known.stage(stage).id if stage is not None else None,
        secret=secret or Secret(),
        only_public=only_public,
        exercises=tuple(known.exercise(id).id for id in exercises) if exercises is not None else None,
        limits=limits,
        course=course,
        checks=checks,
        require=tuple(require),
    )
    batch = _Batch(plan, entries, known.stage(stage).points if stage is not None else 0.0, on_progress)
    kept = Cache(cache, plan) if cache is not None else None
    todo = batch.without_work(kept)
    with closing(_graded(plan, batch, todo, jobs, scheduler, template)) as graded:
        for index, record in graded:
            if kept is not None:
                kept.keep(entries[index].path, record)
            batch.done(index, record)
    if kept is not None:
        kept.tidy()
        if kept.trouble is not None and on_trouble is not None:
            on_trouble(kept.trouble)
    return batch.document()


def _graded(
    plan: Plan, batch: _Batch, todo: list[int], jobs: int | None, scheduler: str | None, template: Template | None
) -> Generator[tuple[int, Record], None, None]:
    if not todo:
        return
    if scheduler is not None:
        try:
            from grader.batch import cluster
        except ModuleNotFoundError as error:
            raise Refused(
                say(
                    "--scheduler 需要 Python 包 {name}。请运行：pip install -e '.[cluster]' -c constraints.txt",
                    "--scheduler needs the Python package {name}. Run: pip install -e '.[cluster]' -c constraints.txt",
                    name=error.name or "distributed",
                )
            ) from None
        yield from cluster.graded(plan, todo, batch.load, scheduler)
        return
    count = min(len(todo), jobs or default_jobs(-(-len(todo) // SHARE)))
    if count == 1 or template is not None:
        yield from local.here(plan, todo, batch.load, template)
    else:
        yield from local.side_by_side(plan, todo, batch.load, count)


@dataclass
class _Batch:
    """The submissions of a run, by their place in it, and what has come of them."""

    plan: Plan
    entries: Sequence[Entry]
    points: float  # of the stage, when there is one for all
    on_progress: OnProgress | None

    def __post_init__(self) -> None:
        self.records: dict[int, Record] = {}

    def load(self, index: int) -> Job:
        return self.entries[index].job()

    def done(self, index: int, record: Record) -> None:
        record.row["repairs"] += [note.to_json() for note in self.entries[index].notes]
        self.records[index] = record
        if self.on_progress:
            self.on_progress(len(self.records), len(self.entries), record.row)

    def without_work(self, kept: Cache | None) -> list[int]:
        """Settle what cannot be read, and what is known from an earlier run. Returns the places of the others."""
        todo = []
        for index in range(len(self.entries)):
            job = self.load(index)
            found: Record | None
            if job.problem is not None:
                row = ungraded(job, "unreadable", job.problem, stage=self.plan.stage, max_score=self.points)
                found = Record(row)
            else:
                found = kept.find(job) if kept is not None else None
            if found is None:
                todo.append(index)
            else:
                self.done(index, found)
        return todo

    def document(self) -> dict[str, Any]:
        records = [self.records[index] for index in range(len(self.entries))]
        walls = [record.isolation for record in records if record.row["exercises"]]
        in_force = [wall for wall in walls[0] if all(wall in others for others in walls)] if walls else []
        rows = [record.row for record in records]
        _tell_namesakes(rows)
        return results.document(rows, secret=self.plan.secret, isolation=in_force)


def namesakes(rows: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows of one stage under one id, when there is more than one: one student's, or two students'."""
    by_id = defaultdict(list)
    for row in rows:
        by_id[row["student"], row["stage"]].append(row)
    return [same for same in by_id.values() if len(same) > 1]


def _tell_namesakes(rows: list[dict[str, Any]]) -> None:
    """All are graded, and each says so; not where the others lie, for a learner reads this too."""
    for same in namesakes(rows):
        for row in same:
            told = say(
                "学号 {id} 有 {n} 份提交，各评各的，请教师核对是谁的。",
                "{id} has {n} submissions. Each is graded; the instructor should look whose they are.",
                id=row["student"],
                n=len(same),
            )
            row["repairs"].append(told.to_json())
