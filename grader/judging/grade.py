"""Official grading of files and folders: every submission to its end, whatever the others do."""

from __future__ import annotations

import gc
import logging
import os
import sysconfig
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import paths, results
from grader.course import catalog
from grader.inputs import Secret
from grader.judging import judge, which_stage
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.subject import Subject
from grader.text import Text, say
from grader.threads import one_thread
from grader.wall.limits import Budget, Limits
from grader.wall.workers import Template, WorkerSubject

log = logging.getLogger("flashdojo")

OnProgress = Callable[[int, int, dict[str, Any]], None]


class Refused(Exception):
    """Grading cannot be trusted or cannot start on this installation; ``message`` says what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


@dataclass(frozen=True)
class Entry:
    """One file to grade, or what is wrong with the path that was named instead."""

    path: Path
    student: str
    problem: Text | None = None


def grade_paths(
    targets: Sequence[Path | str],
    *,
    stage: str | None = None,
    student: str | None = None,
    secret: Secret | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
    only_public: bool = False,
    exercises: Collection[str] | None = None,
    course: catalog.Catalog | None = None,
    limits: Limits | None = None,
    template: Template | None = None,
) -> dict[str, Any]:
    """The result document for files and folders, in the order given (a folder's files sorted).

    Order and ``jobs`` change nothing in it but seconds. ``on_progress(done, total, submission)`` comes after each
    submission, one call at a time. ``template``: one that the caller keeps warm, else one is made for this call.
    Raises :class:`catalog.UnknownName` for a stage or exercise that is none,
    :class:`catalog.CatalogError` when the course itself is wrong, :class:`Refused` on an installation without a clone.
    """
    require_clone()
    course = course or catalog.load()
    wanted = course.stage(stage) if stage is not None else None
    chosen = {course.exercise(id).id for id in exercises} if exercises is not None else None
    entries = collect(targets, student)
    secret = secret or Secret()
    done = 0
    lock = threading.Lock()
    gc.collect()
    gc.freeze()  # else every collection walks through all of torch, which costs as much as reading a submission
    with Template() if template is None else nullcontext(template) as template, one_thread():
        grading = _Grading(course, wanted, secret, template, only_public, chosen, limits)

        def grade(entry: Entry) -> dict[str, Any]:
            nonlocal done
            row = grading.entry(entry)
            with lock:
                done += 1
                if on_progress:
                    on_progress(done, len(entries), row)
            return row

        with ThreadPoolExecutor(max_workers=jobs or default_jobs(len(entries))) as pool:
            try:
                rows = list(pool.map(grade, entries))
            except BaseException:  # an interruption: what runs is finished, nothing new is begun
                pool.shutdown(cancel_futures=True)
                raise
        isolation = [name for name, (in_force, _) in template.layers.items() if in_force]
    return results.document(rows, secret=secret, isolation=isolation)


def default_jobs(submissions: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, submissions))


def require_clone() -> None:
    """Learner code may read site-packages, so the reference must not be there: grading needs the clone."""
    here = Path(__file__).resolve()
    site = [Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")]
    if any(here.is_relative_to(folder) for folder in site) or not paths.STAGES.is_dir():
        raise Refused(
            say(
                "评分程序不在仓库的克隆里（{here}），参考答案会被学员代码读到。请在克隆里运行 ./dojo grade。",
                "the grader does not run from a clone ({here}), so learner code could read the reference; "
                "run ./dojo grade inside a clone.",
                here=here.parent,
            )
        )


def collect(targets: Sequence[Path | str], student: str | None = None) -> list[Entry]:
    """The files behind the targets, each once."""
    entries: dict[str, Entry] = {}
    for target in map(Path, targets):
        if not target.is_dir():
            found = [Entry(target, student or student_of(target))]
        else:
            found = [_in_folder(path, target, student) for path in submission.collect(target)]
            if not found:
                empty = say(
                    "{path}：文件夹里没有 .ipynb 或 .py 文件。",
                    "{path}: a folder without any .ipynb or .py file.",
                    path=submission.shown(target),
                )
                found = [Entry(target, student or student_of(target), empty)]
        for entry in found:
            entries.setdefault(os.path.abspath(entry.path), entry)
    return list(entries.values())


def _in_folder(path: Path, folder: Path, student: str | None) -> Entry:
    problem = None
    if submission.leads_outside(path, folder):
        problem = say(
            "{path}：符号链接指向文件夹之外，请交上文件本身。",
            "{path}: a symbolic link out of the folder; hand in the file itself.",
            path=submission.shown(path),
        )
    return Entry(path, student or student_of(path), problem)


def student_of(path: Path) -> str:
    """``submitted/<student>/...`` as nbgrader lays it out, else the file's stem."""
    folders = Path(os.path.abspath(path)).parts[:-1]
    for position in range(len(folders) - 2, -1, -1):
        if folders[position] == "submitted":
            return submission.shown(folders[position + 1])
    return submission.shown(path.stem or path.name) or "?"


@dataclass(frozen=True)
class _Grading:
    """What is the same for all submissions of one run."""

    course: catalog.Catalog
    stage: catalog.Stage | None  # None: each notebook says its own
    secret: Secret
    template: Template
    only_public: bool
    exercises: Collection[str] | None
    limits: Limits | None

    def entry(self, entry: Entry) -> dict[str, Any]:
        """One element of the document's ``submissions``, whatever happens."""
        start = time.perf_counter()
        program = None
        try:
            if entry.problem:
                raise Unreadable(entry.problem)
            program = submission.read(entry.path)
            return self.program(program, entry.student)
        except Unreadable as error:
            status, message = "unreadable", error.message
        except Exception as error:
            log.debug("grading %s failed", entry.path, exc_info=True)
            status = "failed"
            message = say(
                "评分程序自己出错了：{kind}: {text}。这不是提交的问题。",
                "the grader itself failed: {kind}: {text}. The submission is not to blame.",
                kind=type(error).__name__,
                text=results.clean(error),
            )
        return results.submission(
            path=submission.shown(entry.path),
            student=entry.student,
            stage=self.stage.id if self.stage else program.stage if program else None,
            sha256=program.sha256 if program else None,
            status=status,
            max_score=self.stage.points if self.stage else 0.0,
            message=message,
            repairs=program.repairs if program else (),
            seconds=time.perf_counter() - start,
        )

    def program(self, program: Program, student: str) -> dict[str, Any]:
        stage = self.stage or which_stage.said(program, self.course)
        row = judge.grade_program(
            program,
            stage,
            student=student,
            secret=self.secret,
            subject_factory=subjects(self.template, program, limits=self.limits),
            only_public=self.only_public,
            exercises=self.exercises,
        )
        other = which_stage.mismatch(program, stage)
        if row["message"] is None and other:
            row["message"] = other.to_json()
        return row


def subjects(
    template: Template, program: Program, *, limits: Limits | None = None
) -> Callable[[frozenset[str]], Subject]:
    """The program behind the wall, under any bans; all of its workers live on one budget of CPU time. The template is
    started here, so that no program is charged for it."""
    template.start()
    budget = Budget((limits or Limits()).submission)
    cells = [
        (cell.number, cell.source, f"<cell {cell.number}>" if cell.number is not None else program.path.name)
        for cell in program.cells
    ]
    return lambda bans: WorkerSubject(template, cells, sorted(bans), limits, budget)
