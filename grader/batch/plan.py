"""What is the same for all submissions of a run, and what travels to and from whoever grades one."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from grader import paths, results
from grader.course.private import PrivateChecksError, digest
from grader.inputs import Secret
from grader.reading.artifacts import Artifacts
from grader.reading.submission import shown
from grader.text import Text
from grader.wall.limits import Limits

# Rooms of the grader that show and manage: results do not follow from them.
NO_SOURCES = {"classroom", "commands", "integrity", "live", "pipeline", "proving", "reports", "views"}
SOURCE_SUFFIXES = (".py", ".toml", ".json")


class Lost(Exception):
    """Whoever did the grading went away in the middle; ``message`` says what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


@dataclass(frozen=True)
class Plan:
    """How to grade. Plain data: it goes to other processes and machines."""

    stage: str | None = None  # None: each notebook says its own
    secret: Secret = field(default_factory=Secret)
    only_public: bool = False
    exercises: tuple[str, ...] | None = None  # ids; None for all
    limits: Limits | None = None
    course: Path | None = None  # None: the one in the clone, wherever that lies
    require: tuple[str, ...] = ()  # walls without which nothing is graded
    checks: Path | None = None  # a folder of private checks; it has to be readable wherever grading is done

    def identity(self) -> dict[str, Any]:
        """Everything but the submission that a result follows from. The same on another machine means: the same
        results."""
        return {
            "schema": results.SCHEMA_VERSION,
            "version": results.version(),
            "grader": _digest(paths.ROOT / "grader"),
            "kernels": _digest(paths.ROOT / "kernels"),
            "stages": _digest(self.course or paths.STAGES),
            "torch": metadata.version("torch"),
            "numpy": metadata.version("numpy"),
            "python": ".".join(platform.python_version_tuple()[:2]),
            "device": "cpu",
            "secret": self.secret.key_id,
            "checks": _private(self.checks),
            "stage": self.stage,
            "only_public": self.only_public,
            "exercises": sorted(self.exercises) if self.exercises is not None else None,
            "limits": asdict(self.limits or Limits()),
        }


@dataclass(frozen=True)
class Job:
    """One submission on its way: its bytes and those of what lies beside it, or why there are none."""

    path: Path
    student: str
    data: bytes = b""
    problem: Text | None = None
    artifacts: Artifacts = field(default_factory=Artifacts)


@dataclass(frozen=True)
class Record:
    """A result: one element of the document's ``submissions``, and the walls that stood around the learner's code."""

    row: dict[str, Any]
    isolation: tuple[str, ...] = ()


def ungraded(job: Job, status: str, message: Text, *, seconds: float = 0.0, **known: Any) -> dict[str, Any]:
    """The row of a submission that has no points: ``status`` is unreadable or failed."""
    return results.submission(
        path=shown(job.path), student=job.student, status=status, message=message, seconds=seconds, **known
    )


def _private(folder: Path | None) -> str | None:
    """A digest of the private checks. Where they are not, nothing that was graded with them is known."""
    try:
        return digest(folder) if folder is not None else None
    except PrivateChecksError:
        return "absent"


@functools.cache
def _digest(folder: Path) -> str:
    """Of the programs and tables in a folder that grading runs on."""
    digest = hashlib.sha256()
    for file in _files(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in SOURCE_SUFFIXES and file.relative_to(folder).parts[0] not in NO_SOURCES and file.is_file():
            yield file
