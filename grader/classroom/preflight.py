"""Before an nbgrader command begins: what would end it halfway, in one line instead of a traceback."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from grader.exit_codes import USAGE
from grader.text import Text, say

WRITES = {"autograde", "generate_assignment", "generate_feedback", "collect", "assign", "feedback"}
PATIENCE = 60.0  # seconds to wait for whoever is writing to the gradebook


def require_ready(course: Path, arguments: Sequence[str]) -> None:
    """Ends the process with a line on stderr when the command in ``arguments`` (``sys.argv``) cannot do its work."""
    words = _words(arguments[1:])
    if Path(arguments[0]).name != "nbgrader" or not words or words[0] not in WRITES:
        return
    problem = _no_room(course) or _unknown(course, words) or _in_use(course / "gradebook.db")
    if problem:
        print(f"flashdojo: {problem}", file=sys.stderr)
        sys.exit(USAGE)


def _words(arguments: Sequence[str]) -> list[str]:
    """The command and the assignment. What follows an option may be its value (``--student bob``): it is neither."""
    before = ["", *arguments]
    return [
        word
        for option, word in zip(before, arguments)
        if not word.startswith("-") and (not option.startswith("-") or "=" in option)
    ]


def _no_room(course: Path) -> Text | None:
    if os.access(course, os.W_OK):
        return None
    return say(
        "课程目录 {course} 不可写，没有改动任何东西。请修改它的权限，或换一个用户。",
        "the course folder {course} cannot be written to; nothing was changed. Change its permissions, or the user.",
        course=course,
    )


def _unknown(course: Path, words: Sequence[str]) -> Text | None:
    source = course / "source"
    if len(words) < 2 or not source.is_dir() or (source / words[1]).is_dir():
        return None
    known = sorted(folder.name for folder in source.iterdir() if folder.is_dir())
    return say(
        "没有叫 {name} 的作业。有：{known}。",
        "there is no assignment {name}. There are: {known}.",
        name=words[1],
        known=", ".join(known) or "-",
    )


def _in_use(gradebook: Path) -> Text | None:
    """Waits while somebody else writes; nbgrader itself would give up after five seconds, halfway through."""
    if not gradebook.is_file():
        return None
    try:
        with closing(sqlite3.connect(gradebook, timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            connection.execute("rollback")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return say(
                "{file} 正被别的程序使用（另一个 nbgrader 或 Formgrader？），没有改动任何东西。请等它结束再试。",
                "{file} is in use by another program (another nbgrader, or formgrader?); nothing was changed. "
                "Try again when it is done.",
                file=gradebook,
            )
        return say("{file} 打不开：{why}", "{file} cannot be opened: {why}", file=gradebook, why=error)
    except sqlite3.DatabaseError as error:
        return say(
            "{file} 已损坏：{why}。请恢复备份。",
            "{file} is damaged: {why}. Restore a backup.",
            file=gradebook,
            why=error,
        )
    return None
