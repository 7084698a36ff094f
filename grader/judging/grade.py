"""What every official grading rests on: a clone to run from, and learner code behind the wall."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path

from grader import paths
from grader.reading.submission import Program
from grader.subject import Subject
from grader.text import Text, say
from grader.wall.limits import Budget, Limits
from grader.wall.workers import Template, WorkerSubject


class Refused(Exception):
    """Grading cannot be trusted or cannot start on this installation; ``message`` says what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


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


def subjects(
    template: Template, program: Program, *, device: str = "cpu", limits: Limits | None = None
) -> Callable[[frozenset[str]], Subject]:
    """The program behind the wall, under any bans; all of its workers live on one budget of CPU time. The template is
    started here, so that no program is charged for it. ``device``: cpu, or npu (emulated)."""
    template = template.on(device)
    template.start()
    budget = Budget((limits or Limits()).submission)
    cells = [
        (cell.number, cell.source, f"<cell {cell.number}>" if cell.number is not None else program.path.name)
        for cell in program.cells
    ]
    return lambda bans: WorkerSubject(template, cells, sorted(bans), limits, budget)
