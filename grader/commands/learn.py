"""What a learner does between two answers: list, start, hint, solution. None of it waits for torch."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from grader import paths
from grader.commands.base import command, note, print_json, short, stop, tell, trouble
from grader.course import catalog
from grader.course.catalog import Exercise, Stage
from grader.exit_codes import FAILED, PASSED
from grader.progress import Progress, work_folder
from grader.reading import submission
from grader.text import answer_in, language, say


def _course() -> catalog.Catalog:
    return catalog.load(checks=False)


def list_exercises(folder: Path | None, as_json: bool) -> int:
    stages = _course().stages
    progress = {stage.id: Progress(work_folder(stage.id, folder)) for stage in stages}
    if as_json:
        print_json({"schema_version": 1, "stages": [_as_json(stage, progress[stage.id]) for stage in stages]})
        return PASSED
    from rich import box
    from rich.table import Table

    from grader.views.content import number
    from grader.views.terminal import console

    out = console()
    for stage in stages:
        mine = progress[stage.id]
        done = sum(mine.best(exercise.id) for exercise in stage.exercises)
        weeks = say("（{n} 周）", "  ({n} weeks)", n=stage.weeks)
        heading = f"{stage.title}{weeks}  {number(done)}/{number(stage.points)}"
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), title_justify="left", title=heading)
        table.add_column("")
        table.add_column(str(say("练习", "exercise")), no_wrap=True)
        table.add_column(str(say("内容", "about")), overflow="fold")
        table.add_column(str(say("得分", "points")), justify="right", no_wrap=True)
        for exercise in stage.exercises:
            mark = "[green]✓[/]" if mine.passed(exercise.id) else ""
            points = f"{number(mine.best(exercise.id))}/{number(exercise.points)}"
            table.add_row(mark, exercise.id, str(exercise.title), points)
        out.print(table)
    tell(
        say(
            "从 {start} 开始；{hint} 给提示。",
            "Begin with {start}; {hint} gives a hint.",
            start=command("start"),
            hint=command("hint", "EXERCISE"),
        )
    )
    return PASSED


def _as_json(stage: Stage, progress: Progress) -> dict[str, Any]:
    rows = [
        {
            "id": exercise.id,
            "name": exercise.name,
            "kind": exercise.kind,
            "points": exercise.points,
            "title": exercise.title.to_json(),
            "summary": exercise.summary.to_json(),
            "best": progress.best(exercise.id),
            "passed": progress.passed(exercise.id),
            "hints_shown": progress.hints(exercise.id),
        }
        for exercise in stage.exercises
    ]
    return {
        "id": stage.id,
        "title": stage.title.to_json(),
        "weeks": stage.weeks,
        "points": stage.points,
        "exercises": rows,
    }


def start(stage_id: str | None, folder: Path | None) -> int:
    course = _course()
    stage = course.stage(stage_id) if stage_id else _first_open(course)
    source = paths.NOTEBOOKS / language() / f"{stage.folder}.ipynb"
    if not source.is_file():
        stop(
            say(
                "缺少 {file}。请运行 ./dojo dev build 重新生成笔记本。",
                "{file} is missing. Run ./dojo dev build to rebuild the notebooks.",
                file=short(source),
            )
        )
    target_folder = folder if folder is not None else Path.cwd() / "work" / stage.id
    target = target_folder / source.name
    if target.exists():
        tell(say("{file} 已经存在，保持原样。", "{file} is already there and stays as it is.", file=short(target)))
        if submission.language_of(target) not in (None, language()):
            tell(
                say(
                    "它是英文版；要中文版，请用 --dir 换一个文件夹。",
                    "It is the Chinese one; for the English one name another folder with --dir.",
                )
            )
    else:
        target_folder.mkdir(parents=True, exist_ok=True)
        _copy(source, target)
        Progress(target_folder).save()
        tell(say("已创建 {file}：{title}", "Created {file}: {title}", file=short(target), title=str(stage.title)))
    hint = command("hint", stage.exercises[0].id, *_folder_option(folder, stage.id))
    tell(say("打开它：   {command}", "Open it:        {command}", command=f"{_jupyter()} lab {_quoted(short(target))}"))
    tell(say("检查它：   {command}", "Check it:       {command}", command=command("check", short(target))))
    tell(say("卡住了：   {command}", "When stuck:     {command}", command=hint))
    return PASSED


def _folder_option(folder: Path | None, stage_id: str) -> list[str]:
    """``--dir`` for a command that would look elsewhere without it."""
    if folder is None or folder.resolve() == work_folder(stage_id).resolve():
        return []
    return ["--dir", short(folder)]


def _first_open(course: catalog.Catalog) -> Stage:
    for stage in course.stages:
        progress = Progress(work_folder(stage.id))
        if not all(progress.passed(exercise.id) for exercise in stage.exercises):
            return stage
    return course.stages[-1]


def _copy(source: Path, target: Path) -> None:
    """All or nothing: a disk that fills up leaves no half notebook."""
    try:
        with open(source, "rb") as reader, open(target, "xb") as writer:
            shutil.copyfileobj(reader, writer)
    except FileExistsError:
        raise
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _jupyter() -> str:
    beside = Path(sys.executable).with_name("jupyter")
    return _quoted(_without_resolving(beside)) if beside.exists() else "jupyter"


def _without_resolving(path: Path) -> str:
    """Relative to here, without following the links that a virtual environment consists of."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _open(exercise_id: str, folder: Path | None) -> tuple[Exercise, Progress]:
    """The exercise and the progress in its work folder, whose notebook says in which language to answer."""
    course = _course()
    exercise = course.exercise(exercise_id)
    progress = Progress(work_folder(exercise.stage_id, folder))
    notebook = progress.folder / f"{course.stage(exercise.stage_id).folder}.ipynb"
    answer_in(submission.language_of(notebook))
    return exercise, progress


def hint(exercise_id: str, folder: Path | None) -> int:
    exercise, progress = _open(exercise_id, folder)
    last = len(exercise.hints)
    level = min(progress.hints(exercise.id) + 1, last)
    tell(f"{exercise.id}  {exercise.title}")
    tell(say("提示 {level}/{last}：", "Hint {level} of {last}:", level=level, last=last))
    tell(exercise.hints[level - 1])
    if progress.hints(exercise.id) < last:
        try:
            progress.show_hint(exercise.id, level)
        except OSError as error:  # the hint is given all the same
            note(say("看到第几级没有记下：", "which level you saw was not kept: ").plus(trouble(error)[0], ""))
    tell()
    if level < last:
        tell(say("再运行一次，给出下一级提示。", "Run it again for the next level."))
        return PASSED
    for entry in exercise.reading:
        tell(f"  {entry.title}  {entry.url}")
    tell(
        say(
            "提示到此为止；通过后可用 {solution} 看解答。",
            "That was the last one; after passing, {solution}.",
            solution=command("solution", exercise.id, *_folder_option(folder, exercise.stage_id)),
        )
    )
    return PASSED


def solution(exercise_id: str, force: bool, folder: Path | None) -> int:
    exercise, progress = _open(exercise_id, folder)
    if not force and not progress.passed(exercise.id):
        stop(
            say(
                "{id} 还没有通过（看的是 {folder}）。先用 {check} 通过它，或加 --force 直接看。",
                "{id} has not passed yet (looked in {folder}). Pass it with {check}, or add --force.",
                id=exercise.id,
                check=command("check", short(progress.folder)),
                folder=short(progress.folder),
            ),
            FAILED,
        )
    show_code(exercise)
    return PASSED


def show_code(exercise: Exercise) -> None:
    from grader.course import notebooks
    from grader.views.terminal import console

    code = notebooks.solution(exercise, language()).rstrip()
    out = console()
    if not out.is_terminal:
        tell(code)
        return
    from rich.syntax import Syntax

    out.print(Syntax(code, "python", background_color="default"))
