"""The judge inside ``nbgrader autograde``: submissions are graded ahead, several at a time, while nbgrader converts."""

from __future__ import annotations

import atexit
import hashlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from traitlets.config import Config

from grader.course import catalog
from grader.inputs import Secret
from grader.judging.grade import default_jobs, require_clone, subjects
from grader.judging.judge import grade_program
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.results import submission as unreadable_row
from grader.wall.workers import Template

IDLE = 60.0  # seconds without work after which the template is let go; formgrader's server runs on


@dataclass(frozen=True)
class Submitted:
    """One learner's notebook of one assignment."""

    course: Path
    student: str
    assignment: str
    notebook: str

    @property
    def path(self) -> Path:
        return self.course / "submitted" / self.student / self.assignment / f"{self.notebook}.ipynb"

    @property
    def done(self) -> bool:
        return (self.course / "autograded" / self.student / self.assignment / f"{self.notebook}.ipynb").exists()


class Marker:
    """Grades programs of one course. One for a process and a secret; see :meth:`of`."""

    def __init__(self, secret: Secret, jobs: int, config: Config):
        require_clone()
        self.secret, self.config = secret, config
        self.jobs = jobs or default_jobs(1 << 16)
        self.course = catalog.load()
        self._template: Template | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[str, Future[dict[str, Any]]] = {}  # by what is graded
        self._looked: set[tuple[Path, str, str]] = set()
        self._timer: threading.Timer | None = None
        atexit.register(self.close)

    @classmethod
    def of(cls, secret: Secret, jobs: int, config: Config) -> Marker:
        with _lock:
            key = secret.key_id, jobs
            if key not in _markers:
                _markers[key] = cls(secret, jobs, config)
            _markers[key].config = config
            return _markers[key]

    def row(self, which: Submitted, stage: str, data: bytes) -> dict[str, Any]:
        """The result of a (repaired) notebook; its neighbours in the assignment are put to work meanwhile."""
        self._rest(None)
        self._look_ahead(which, stage)
        try:
            program = submission.parsed(which.path, data)
        except Unreadable as error:
            return unreadable_row(
                path=str(which.path), student=which.student, stage=stage, status="unreadable", message=error.message,
                max_score=self.course.stage(stage).points,
            )  # fmt: skip
        waiting = self._ahead.pop(_key(which.student, stage, program), None)
        row = waiting.result() if waiting is not None else self._grade(program, which.student, stage)
        self._rest(IDLE)
        return row

    def close(self) -> None:
        """End the workers. The next submission starts them again."""
        with _lock:
            pool, template, self._pool, self._template = self._pool, self._template, None, None
            self._ahead.clear()
            self._looked.clear()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
        if template is not None:
            template.close()

    def _rest(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            self._timer = threading.Timer(seconds, self.close)
            self._timer.daemon = True
            self._timer.start()

    def _look_ahead(self, which: Submitted, stage: str) -> None:
        """Begin with the notebooks that nbgrader will come to next: the same assignment, other learners."""
        asked = (which.course, which.assignment, which.notebook)
        chosen = self.config.get("CourseDirectory", {}).get("student_id", "*")
        if asked in self._looked or self.jobs < 2 or chosen != "*":
            return
        self._looked.add(asked)
        again = any(self.config.get(name, {}).get("force", False) for name in ("BaseConverter", "Autograde"))
        pool = self._started()
        for folder in sorted((which.course / "submitted").iterdir()):
            other = Submitted(which.course, folder.name, which.assignment, which.notebook)
            if not other.path.is_file() or (other.done and not again):
                continue
            try:
                program = submission.read(other.path)
            except Unreadable:
                continue
            key = _key(other.student, stage, program)
            self._ahead[key] = pool.submit(self._grade, program, other.student, stage)

    def _started(self) -> ThreadPoolExecutor:
        with _lock:
            if self._pool is None:
                torch.set_num_threads(1)  # see grader.threads; for good, since the threads of the pool overlap
                self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="flashdojo")
            if self._template is None:
                self._template = Template()
        return self._pool

    def _grade(self, program: Program, student: str, stage: str) -> dict[str, Any]:
        self._started()
        assert self._template is not None
        return grade_program(
            program,
            self.course.stage(stage),
            student=student,
            secret=self.secret,
            subject_factory=subjects(self._template, program),
        )


_lock = threading.RLock()
_markers: dict[tuple[str, int], Marker] = {}


def _key(student: str, stage: str, program: Program) -> str:
    """What is graded: whose, and the code that runs. Outputs and prose of the notebook do not matter."""
    cells = repr([(cell.number, cell.source) for cell in program.cells])
    return hashlib.sha256(f"{student}|{stage}|{cells}".encode()).hexdigest()
