"""The judge inside ``nbgrader autograde``: submissions are graded ahead, several at a time, while nbgrader converts."""

from __future__ import annotations

import atexit
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from traitlets.config import Config

from grader.batch.local import Assistant
from grader.batch.plan import Job, Plan, Record
from grader.course import catalog
from grader.course.private import with_private
from grader.judging.grade import default_jobs, require_clone
from grader.reading import artifacts, submission
from grader.reading.submission import Unreadable

IDLE = 60.0  # seconds without work after which the assistants are sent home; formgrader's server runs on


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
    """Grades notebooks under one plan. A process has one for each; see :meth:`of`."""

    def __init__(self, plan: Plan, jobs: int):
        require_clone()
        if plan.checks is not None:  # what is wrong with them is told here: an assistant could only fail to start
            with_private(catalog.load(), plan.checks)
        self.plan, self.jobs = plan, jobs or default_jobs(1 << 16)
        self._idle: queue.SimpleQueue[Assistant] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[tuple[str, str], Future[Record]] = {}  # by student and code
        self._looked: set[tuple[Path, str, str]] = set()
        self._timer: threading.Timer | None = None
        self._busy = 0  # notebooks that somebody waits for
        atexit.register(self.close)

    @classmethod
    def of(cls, plan: Plan, jobs: int) -> Marker:
        key = (plan, jobs)
        with _lock:
            if key not in _markers:
                _markers[key] = cls(plan, jobs)
            return _markers[key]

    def record(self, which: Submitted, data: bytes, config: Config) -> Record:
        """The result of a (repaired) notebook. The first one asked for sets its neighbours to work too."""
        with _lock:
            self._busy += 1
        try:
            self._look_ahead(which, config)
            job = Job(which.path, which.student, data, artifacts=artifacts.beside(which.path))
            waiting = self._ahead.pop(_key(job), None) or self._begin(job)
            return waiting.result()
        finally:
            with _lock:
                self._busy -= 1
            self._rest()

    def close(self) -> None:
        """Send the assistants home, unless somebody waits for them. The next submission calls them again."""
        with _lock:
            if self._busy:
                return
            pool, self._pool = self._pool, None
            self._ahead.clear()
            self._looked.clear()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().__exit__(None, None, None)

    def _rest(self) -> None:
        """Close when nothing more is asked for a while."""
        with _lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(IDLE, self.close)
            self._timer.daemon = True
            self._timer.start()

    def _look_ahead(self, which: Submitted, config: Config) -> None:
        """Begin with the notebooks that nbgrader will come to next: the same assignment, other learners."""
        asked = (which.course, which.assignment, which.notebook)
        everybody = config.get("CourseDirectory", {}).get("student_id", "*") == "*"
        if asked in self._looked or self.jobs < 2 or not everybody:
            return
        self._looked.add(asked)
        again = any(config.get(name, {}).get("force", False) for name in ("BaseConverter", "Autograde"))
        for folder in sorted((which.course / "submitted").iterdir()):
            other = Submitted(which.course, folder.name, which.assignment, which.notebook)
            try:
                if not other.path.is_file() or (other.done and not again):
                    continue
                data, files = submission.contents(other.path), artifacts.beside(other.path)
                job = Job(other.path, other.student, data, artifacts=files)
            except (OSError, Unreadable):  # nbgrader comes to it, too, and then it is told
                continue
            key = _key(job)
            if key[1]:
                self._ahead[key] = self._begin(job)

    def _begin(self, job: Job) -> Future[Record]:
        with _lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="flashdojo")
                for _ in range(self.jobs):
                    self._idle.put(Assistant(self.plan))
            return self._pool.submit(self._grade, job)

    def _grade(self, job: Job) -> Record:
        assistant = self._idle.get()
        try:
            return assistant.grade(job)
        finally:
            self._idle.put(assistant)


_lock = threading.RLock()
_markers: dict[tuple[Plan, int], Marker] = {}


def _key(job: Job) -> tuple[str, str]:
    """What is graded: whose, the code that runs, in its place, and the files beside it. Outputs and prose of the
    notebook do not matter."""
    try:
        cells = submission.parsed(job.path, job.data).cells
        return job.student, repr([[(cell.number, cell.source) for cell in cells], job.artifacts.digests()])
    except Unreadable:
        return job.student, ""
