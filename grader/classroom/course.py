"""``flashdojo instructor init``: the folder of a course, ready for nbgrader."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader import paths
from grader.classroom.config import SECRET_FILE
from grader.classroom.source import source_notebook
from grader.course import notebooks
from grader.course.catalog import Stage
from grader.text import Text, say

CONFIG = '''\
"""The nbgrader course {name!r}. nbgrader reads this file when it is started in this folder."""

import sys
from pathlib import Path

c = get_config()  # noqa: F821 (nbgrader gives it)

FLASHDOJO = {clone!r}  # the clone whose judge grades this course
if FLASHDOJO not in sys.path:
    sys.path.insert(0, FLASHDOJO)
try:
    from grader.classroom.config import configure
except ImportError as error:
    sys.exit(f"{{error}}. {missing}")

c.CourseDirectory.course_id = {name!r}
c.Exchange.root = str(Path(__file__).resolve().parent / "exchange")  # give learners a folder they can reach
configure(c, Path(__file__).resolve().parent, lang={lang!r})

# What follows wins over what configure() sets. For example:
# c.JudgeCells.jobs = 4
# c.Autograde.exclude_overwriting = {{"s2": ["notes.txt"]}}
'''


@dataclass
class Made:
    """What ``init`` did: files written, and files that were there and stayed."""

    written: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)


class NotACourse(Exception):
    """The folder cannot become a course; ``message`` says why and what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


def create(folder: Path, stages: Sequence[Stage], lang: str) -> Made:
    """Make the course, or complete it: nothing that is there is overwritten.

    Writes ``nbgrader_config.py``, the secret that inputs follow from, ``source/<stage>/<notebook>.ipynb`` and a
    ``.gitignore`` that keeps the secret and the learners' data out of version control.
    """
    if folder.exists() and not folder.is_dir():
        raise NotACourse(
            say("{folder} 是文件，请换一个名字。", "{folder} is a file; choose another name.", folder=folder)
        )
    if any(folder.resolve().is_relative_to(part) for part in (paths.STAGES, paths.SOLUTIONS, paths.NOTEBOOKS)):
        raise NotACourse(
            say(
                "课程目录不要放在 {folder} 里，请换一个位置。",
                "{folder} belongs to FlashDojo; put the course elsewhere.",
                folder=folder,
            )
        )
    made = Made()
    missing = say("请用 {python} 启动 nbgrader", "Start nbgrader with {python}", python="FlashDojo/.venv/bin/nbgrader")
    config = CONFIG.format(name=folder.resolve().name, clone=str(paths.ROOT), lang=lang, missing=missing.pick(lang))
    _write(folder / "nbgrader_config.py", config, made)
    _write(folder / SECRET_FILE, secrets.token_hex(32) + "\n", made, mode=0o600)
    _write(
        folder / ".gitignore",
        f"{SECRET_FILE}\ngradebook.db*\nsubmitted/\nautograded/\nfeedback/\nresults/\nexchange/\n",
        made,
    )
    for stage in stages:
        file = folder / "source" / stage.id / notebooks.path_of(stage, lang).name
        _write(file, notebooks.text_of(source_notebook(stage, lang)), made)
    exchange = folder / "exchange"
    if not exchange.exists():
        exchange.mkdir()
        exchange.chmod(0o1777)  # as nbgrader asks of an exchange: everybody hands in there
    return made


def _write(file: Path, text: str, made: Made, *, mode: int = 0o644) -> None:
    if file.exists():
        made.kept.append(file)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    made.written.append(file)
