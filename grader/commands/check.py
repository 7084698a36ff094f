"""``check`` and ``watch``: the public checks on a file, in a confined worker, and the progress they leave."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from grader import results
from grader.commands.base import note, short, stop
from grader.course import catalog
from grader.course.catalog import Stage
from grader.exit_codes import PASSED
from grader.progress import Progress, keeps_progress
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.text import say


def check(target: Path, stage_id: str | None) -> int:
    from grader.judging.desk import Desk

    target = _file(target)
    with Desk() as desk:
        return _answer(target, stage_id, desk)


def watch(target: Path, stage_id: str | None) -> int:
    """Answer at once, then after every save, until Ctrl-C. A file that cannot be read now may be readable at the next
    save."""
    import watchfiles

    from grader.judging.desk import Desk

    target = _file(target)
    with Desk() as desk, contextlib.suppress(KeyboardInterrupt):
        _answer(target, stage_id, desk)
        # Editors replace the file when they save: it is the folder that has to be watched.
        wanted = str(target.resolve())
        for changes in watchfiles.watch(target.resolve().parent, recursive=False, raise_interrupt=True):
            if wanted not in {path for _, path in changes}:
                continue
            try:
                _answer(target, stage_id, desk, clear=True)
            except Unreadable as error:
                note(error.message)
    return PASSED


def _file(target: Path) -> Path:
    """The target itself; in a work folder, its only notebook or program."""
    if not target.is_dir():
        return target
    found = [path for path in sorted(target.iterdir()) if path.suffix in submission.SUFFIXES and path.is_file()]
    if len(found) != 1:
        stop(
            say(
                "{folder} 里有 {n} 个 .ipynb 或 .py 文件，请指明是哪一个。",
                "{folder} holds {n} files of .ipynb or .py; name the one you mean.",
                folder=short(target),
                n=len(found),
            )
        )
    return found[0]


def stage_of(program: Program, stage_id: str | None) -> Stage:
    """The stage asked for, else the one the notebook names; a notebook of another stage is an error."""
    if stage_id is None and program.stage is None:
        stop(
            say(
                "{file} 没有说明属于哪个阶段，请加 --stage s1 或 --stage s2。",
                "{file} does not say which stage it belongs to: add --stage s1 or --stage s2.",
                file=short(program.path),
            )
        )
    stage = catalog.load().stage(stage_id or program.stage or "")
    if program.stage not in (None, stage.id):
        stop(
            say(
                "{file} 是 {its} 的笔记本，不是 {asked} 的。",
                "{file} is a notebook of {its}, not of {asked}.",
                file=short(program.path),
                its=program.stage,
                asked=stage.id,
            )
        )
    return stage


def _answer(target: Path, stage_id: str | None, desk: Any, clear: bool = False) -> int:
    from rich.text import Text as Styled

    from grader.views.content import blocks, not_a_grade, number
    from grader.views.terminal import console, show_submission

    program = submission.read(target)
    stage = stage_of(program, stage_id)
    answer = desk.grade(program, stage, only_public=True)
    out = console()
    if clear and out.is_terminal:
        out.clear()
    show_submission(out, answer)
    total = say(
        "公开检查：{score}/{most} 分。",
        "Public checks: {score}/{most} points.",
        score=number(answer["score"]),
        most=number(answer["max_score"]),
    )
    out.print(Styled(str(total.plus(not_a_grade(blocks(answer)))), style="bold"))
    if keeps_progress(target):
        with contextlib.suppress(OSError):  # a folder that may only be read is no reason to give no answer
            Progress(target.resolve().parent).record(answer["exercises"])
    return results.exit_code({"submissions": [answer]})
