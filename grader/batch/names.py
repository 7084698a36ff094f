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
MOODLE = re.compile(r"(?P<who>[^/]+?)_(?P<id>\d+)_assignsubmission_file(?:_[^/]*)?")
# wangwei_LATE_123_4567_hw.ipynb: the user's number, then the submission's
CANVAS = re.compile(r"(?P<who>[^_/]+)(?P<late>_LATE)?_(?P<id>\d+)_\d+_[^/]+")
LATE = say("Canvas 标记为迟交（LATE）。", "Canvas marks it as handed in late (LATE).")


@dataclass(frozen=True)
class Owner:
    """A student's id, and what the name says besides."""

    student: str
    notes: tuple[Text, ...] = ()


def owner_of(path: Path | PurePosixPath, top: Path | None = None) -> Owner:
    """nbgrader's ``submitted/<student>/...``, Moodle's or Canvas's names, else the file's stem.

    ``top``: the folder that was named, which the file was found in; None for a file that was named itself. Below it a
    learner chose names, so the outermost that tells an owner counts there; of ``top`` itself, the innermost.
    """
    return named_owner(path, top) or Owner(shown(path.stem or path.name) or "?")


def named_owner(path: Path | PurePosixPath, top: Path | None = None) -> Owner | None:
    """The owner that the place of a file tells, whatever the file is."""
    given, chosen = _parts(path, top)
    parts = (*given, *chosen)
    for place in (*reversed(range(len(given))), *range(len(given), len(parts))):
        if parts[place] == "submitted" and place + 2 < len(parts):
            return Owner(shown(parts[place + 1]))
        found = MOODLE.fullmatch(parts[place])
        if found:
            return _numbered(found)
    found = CANVAS.fullmatch(parts[-1]) if parts else None
    return _numbered(found, (LATE,) if found["late"] else ()) if found else None


def _parts(path: Path | PurePosixPath, top: Path | None) -> tuple[Sequence[str], Sequence[str]]:
    """The names that an instructor gave, and those that learners may have chosen."""
    if not isinstance(path, Path):  # a zip's member
        return (), path.parts
    if top is None:
        return Path(os.path.abspath(path)).parts, ()
    return Path(os.path.abspath(top)).parts, path.relative_to(top).parts


def _numbered(found: re.Match[str], notes: tuple[Text, ...] = ()) -> Owner:
    """People may share a name, so the number that the platform gave them belongs to it."""
    return Owner(f"{shown(found['who'])}_{found['id']}", notes)
