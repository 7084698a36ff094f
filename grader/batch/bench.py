"""The bench: where one submission after another is graded, each to a result, whatever happens."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
import threading
import time
from types import TracebackType
from typing import Any

from grader import paths, results
from grader.batch.plan import Job, Plan, Record, ungraded
from grader.course import catalog
from grader.course.private import with_private
from grader.judging import which_stage
from grader.judging.desk import Desk
from grader.judging.grade import Refused
from grader.judging.verdicts import CRASHES
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.text import Text, listed, say
from grader.wall.limits import Limits
from grader.wall.workers import Template

log = logging.getLogger("flashdojo")

ATTEMPTS = 3
PAUSE = 0.5  # seconds before another attempt: what disturbed the first may be over
KILLED = CRASHES["signal"][1].en.replace("{detail}", "SIGKILL")


class DiskFull(Exception):
    """Workers have no room for files: what a submission does then says nothing about it."""

    def __init__(self, folder: str):
        message = say(
            "放临时文件的磁盘满了（{folder}）。请腾出空间再评一次，其余成绩都还在。",
            "the disk for temporary files is full ({folder}). Free some space and grade again; the rest is kept.",
            folder=folder,
        )
        super().__init__(message.en)
        self.message = message


class Bench:
    """``with Bench(plan) as bench: bench.grade(job)``. One at a time; several threads take turns."""

    def __init__(self, plan: Plan, template: Template | None = None):
        """``template``: one that the caller keeps warm, else the bench has its own."""
        self.plan = plan
        course = catalog.load(plan.course or paths.STAGES)
        self.course = course if plan.checks is None else with_private(course, plan.checks)
        self.stage = self.course.stage(plan.stage) if plan.stage is not None else None
        self.desk = Desk(plan.limits, template)
        self._turn = threading.Lock()
        gc.collect()
        gc.freeze()  # else every collection walks through all of torch, which costs as much as reading a submission

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.desk.close()

    def grade(self, job: Job) -> Record:
        """Never raises for anything the submission is or does. A disturbance from outside is waited out."""
        with self._turn:
            for attempt in range(ATTEMPTS):
                if attempt:
                    time.sleep(PAUSE)
                row = self._row(job)
                if not disturbed(row):
                    break
            return Record(row, self.isolation)

    @property
    def isolation(self) -> tuple[str, ...]:
        """The walls in force; none before the first submission."""
        return tuple(name for name, (in_force, _) in self.desk.template.layers.items() if in_force)

    def _row(self, job: Job) -> dict[str, Any]:
        start = time.perf_counter()
        program = None
        try:
            if job.problem:
                raise Unreadable(job.problem)
            program = submission.parsed(job.path, job.data, job.artifacts)
            return self._graded(program, job.student)
        except Unreadable as error:
            status, message = "unreadable", error.message
        except Exception as error:
            log.debug("grading %s failed", job.path, exc_info=True)
            status, message = "failed", _own_failure(error)
        return ungraded(
            job,
            status,
            message,
            stage=self.stage.id if self.stage else program.stage if program else None,
            sha256=program.sha256 if program else None,
            max_score=self.stage.points if self.stage else 0.0,
            repairs=program.repairs if program else (),
            seconds=time.perf_counter() - start,
        )

    def _graded(self, program: Program, student: str) -> dict[str, Any]:
        stage = self.stage or which_stage.said(program, self.course)
        self._require_walls(stage.device)
        self._require_room()
        row = self.desk.grade(
            program,
            stage,
            student=student,
            secret=self.plan.secret,
            only_public=self.plan.only_public,
            exercises=self.plan.exercises,
        )
        self._require_room()
        other = which_stage.mismatch(program, stage)
        if row["message"] is None and other:
            row["message"] = other.to_json()
        return row

    def _require_walls(self, device: str) -> None:
        if self.plan.require:
            self.desk.template.on(device).start()
            missing = set(self.plan.require) - set(self.isolation)
            if missing:
                raise Refused(
                    say(
                        "这台机器缺少要求的隔离：{walls}。",
                        "the isolation that is required is not there on this machine: {walls}.",
                        walls=listed(sorted(missing)),
                    )
                )

    def _require_room(self) -> None:
        folder = tempfile.gettempdir()
        if shutil.disk_usage(folder).free < (self.plan.limits or Limits()).scratch:
            raise DiskFull(folder)


def disturbed(row: dict[str, Any]) -> bool:
    """Did something other than the submission have a hand in this? The grader failed, or a worker was killed by nobody
    known: the system was out of memory, or a person. A program that kills itself is only graded again, in vain."""
    checks = (check for exercise in row["exercises"] for check in exercise["checks"])
    return row["status"] == "failed" or any(check["message"]["en"].startswith(KILLED) for check in checks)


def _own_failure(error: Exception) -> Text:
    if isinstance(error, DiskFull | Refused):
        return error.message
    return say(
        "评分程序自己出错了：{kind}: {text}。这不是提交的问题。",
        "the grader itself failed: {kind}: {text}. The submission is not to blame.",
        kind=type(error).__name__,
        text=results.clean(error),
    )
