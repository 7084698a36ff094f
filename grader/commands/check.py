"""``check`` and ``watch``: the public checks on a file, in a confined worker, and the progress they leave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from grader import results
from grader.commands.base import command, note, short, stop
from grader.course import catalog
from grader.course.catalog import Stage
from grader.exit_codes import PASSED
from grader.progress import Progress, keeps_progress
from grader.reading import artifacts, submission
from grader.reading.submission import Program, Unreadable
from grader.text import Text, answer_in, listed, say
from grader.views.progress import waiting

LISTED = 5  # files that are named when there are several


def check(target: Path, stage_id: str | None) -> int:
    target = _file(target)
    with _desk(target) as desk:
        return _answer(target, stage_id, desk)


def watch(target: Path, stage_id: str | None) -> int:
    """Answer at once, then after every save, until Ctrl-C. A file that cannot be read now may be readable at the next
    save."""
    import watchfiles

    target = _file(target)
    with _desk(target) as desk, contextlib.suppress(KeyboardInterrupt):
        _answer(target, stage_id, desk)
        # Editors replace the file when they save: it is the folder that has to be watched.
        folder = target.resolve().parent
        wanted = {str(target.resolve()), *(str(folder / name) for name in artifacts.declared())}
        for changes in watchfiles.watch(folder, recursive=False, raise_interrupt=True):
            if not wanted & {path for _, path in changes}:
                continue
            try:
                _answer(target, stage_id, desk, clear=True)
            except Unreadable as error:
                note(error.message)
    return PASSED


@contextlib.contextmanager
def _desk(target: Path) -> Iterator[Any]:
    """A desk for one file, which answers in the file's language. Making it takes a moment: torch is loaded."""
    answer_in(submission.language_of(target))
    with waiting(_checking(target)):
        from grader.judging.desk import Desk

        desk = Desk()
    with desk:
        yield desk


def _checking(target: Path) -> Text:
    return say("检查 {file} ……", "checking {file} ...", file=short(target))


def _file(target: Path) -> Path:
    """The target itself; in a work folder, its only notebook or program."""
    if not target.is_dir():
        return target
    found = submission.collect(target)
    here = [path for path in found if path.parent == target]
    if len(here) != 1:
        _which(target, here, found)
    return here[0]


def _which(folder: Path, here: list[Path], below: list[Path]) -> NoReturn:
    """Ends the command with what is in the folder, and what to do."""
    if not below:
        stop(
            say(
                "{folder} 里没有 .ipynb 或 .py 文件。先用 {start} 建一份，或指明你的文件。",
                "{folder} holds no .ipynb and no .py file. Make one with {start}, or name your file.",
                folder=short(folder),
                start=command("start"),
            )
        )
    names = [short(path) for path in here or below]
    some = listed([*names[:LISTED], *(["..."] if len(names) > LISTED else [])])
    if here:
        text = say(
            "{folder} 里有 {n} 个 .ipynb 或 .py 文件",
            "{folder} holds {n} .ipynb or .py files",
            n=len(names),
            folder=short(folder),
        )
    else:
        text = say(
            "{folder} 本身没有 .ipynb 或 .py 文件", "{folder} itself holds no .ipynb or .py file", folder=short(folder)
        )
    stop(text.plus(say("，请指明是哪一个：{names}", "; name the one you mean: {names}", names=some), ""))


def stage_of(program: Program, stage_id: str | None) -> Stage:
    """The stage asked for, else the one the notebook names, else the only one whose names it defines; a notebook of
    another stage is an error."""
    from grader.judging import which_stage

    course = catalog.load()
    if stage_id is not None:
        stage = course.stage(stage_id)
        other = which_stage.mismatch(program, stage)
        if other:
            stop(other)
        return stage
    guess = which_stage.guessed(program, course) if program.stage is None else None
    if guess is None:
        return which_stage.said(program, course)
    note(
        say(
            "按它定义的名字，作为 {stage} 检查（也可用 --stage 指定）。",
            "checked as {stage}, going by the names it defines (--stage says otherwise).",
            stage=guess.id,
        )
    )
    return guess


def _answer(target: Path, stage_id: str | None, desk: Any, clear: bool = False) -> int:
    from rich.text import Text as Styled

    from grader.views.content import blocks, not_a_grade, number
    from grader.views.terminal import console, show_submission

    program = submission.read(target)
    with waiting(_checking(target)):
        answer = desk.grade(program, stage_of(program, stage_id), only_public=True)
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
