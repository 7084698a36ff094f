"""Whose work a file is, going by its name and the folders that it lies in."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.reading.submission import shown
from grader.text import Text, say

# Wang Wei_123_assignsubmission_file_/hw.ipynb (newer: no _ at the end); no slash when the teacher asked for no folders
MOODLE = re.compile(r"(?P<who>[^/]+)_(?P<id>\d+)_assignsubmission_file(?:_[^/]*)?")
# wangwei_LATE_123_4567_hw.ipynb: the user's number, then the submission's
CANVAS = re.compile(r"(?P<who>[^_/]+)(?P<late>_LATE)?_(?P<id>\d+)_\d+_[^/]+")
LATE = say("Canvas 标记为迟交（LATE）。", "Canvas marks it as handed in late (LATE).")


@dataclass(frozen=True)
class Owner:
    """A student's id, and what the name says besides."""

    student: str
    notes: tuple[Text, ...] = ()


def owner_of(path: Path | PurePosixPath) -> Owner:
    """nbgrader's ``submitted/<student>/...``, Moodle's or Canvas's names, else the file's stem."""
    return named_owner(path) or Owner(shown(path.stem or path.name) or "?")


def named_owner(path: Path | PurePosixPath) -> Owner | None:
    """The owner that the place of a file tells, whatever the file is."""
    return _in_nbgrader(path) or _downloaded(path.parts)


def _in_nbgrader(path: Path | PurePosixPath) -> Owner | None:
    folders = Path(os.path.abspath(path)).parts[:-1] if isinstance(path, Path) else path.parts[:-1]
    for position in range(len(folders) - 2, -1, -1):
        if folders[position] == "submitted":
            return Owner(shown(folders[position + 1]))
    return None


def _downloaded(parts: Sequence[str]) -> Owner | None:
    """As the two platforms name what a teacher downloads. People may share a name, so their number belongs to it."""
    for part in reversed(parts):
        found = MOODLE.fullmatch(part)
        if found:
            return Owner(f"{shown(found['who'])}_{found['id']}")
    found = CANVAS.fullmatch(parts[-1]) if parts else None
    if found:
        return Owner(f"{shown(found['who'])}_{found['id']}", (LATE,) if found["late"] else ())
    return None
