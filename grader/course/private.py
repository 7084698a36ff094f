"""An instructor's own folder of checks, graded beside the course's: written in the same words, always hidden.

``DIR/*.py`` (files that begin with ``_`` are for the others to import) holds functions under ``@check(...)``. Points
are taken from the exercise: when its private checks carry n of its P points, the course's own checks share P - n in
their old proportions, so every exercise and every stage keeps its total. 0 points: the check shows, and costs nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from grader.course.catalog import Catalog, Exercise, Stage
from grader.text import Text, say
from grader.vocabulary import Check

VARIABLE = "FLASHDOJO_CHECKS"
MOST = 0.5  # of an exercise's points may go to private checks
NAMED = 3  # mistakes that are told at a time


class PrivateChecksError(Exception):
    """The folder cannot be used. ``message`` tells its author what to change."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


def chosen(option: Path | None = None) -> Path | None:
    """The folder that ``--checks`` names, else ``FLASHDOJO_CHECKS``; None for no private checks."""
    named = option or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    return named.resolve() if named is not None else None


def with_private(course: Catalog, folder: Path | str) -> Catalog:
    """``course`` with the folder's checks added, each behind its exercise's own. Raises :class:`PrivateChecksError`."""
    folder = Path(folder)
    found = list(_checks(folder))
    if not found:
        raise PrivateChecksError(
            say(
                "{folder} 里没有检查。请在其中的 .py 文件里用 @check(...) 写检查。",
                "{folder} holds no checks. Write them under @check(...) in .py files there.",
                folder=folder,
            )
        )
    problems = list(_problems(course, found))
    if problems:
        raise _refusal(folder, problems)
    return replace(course, stages=[_stage(stage, found) for stage in course.stages])


def digest(folder: Path | str) -> str:
    """Of everything that decides what the folder's checks say, tables and packages in it too: a hexadecimal SHA-256."""
    folder, whole = Path(folder), hashlib.sha256()
    _files(folder)  # tells when it cannot be opened
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in name.parts):
            whole.update(os.fsencode(name.as_posix()) + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".py")
    except OSError as error:
        raise PrivateChecksError(
            say(
                "私有检查的文件夹 {folder} 打不开：{why}。请检查 --checks 或 FLASHDOJO_CHECKS。",
                "the folder of private checks {folder} cannot be opened: {why}. See --checks or FLASHDOJO_CHECKS.",
                folder=folder,
                why=error.strerror or error,
            )
        ) from None


def _checks(folder: Path) -> Iterator[tuple[Path, Check]]:
    """In the order of the files' names, within a file of definition; a check that is imported counts once."""
    package = _package(folder)
    seen: set[int] = set()
    for file in _files(folder):
        if file.name.startswith("_"):
            continue
        for value in vars(_module(package, file)).values():
            if isinstance(value, Check) and id(value) not in seen:
                seen.add(id(value))
                yield file, replace(value, public=False)


def _package(folder: Path) -> str:
    """A package of its own for this content of this folder, so that files may import each other and edits count."""
    name = f"flashdojo_private_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}_{digest(folder)[:16]}"
    if name not in sys.modules:
        module = ModuleType(name)
        module.__path__ = [str(folder.resolve())]
        sys.modules[name] = module
    return name


def _module(package: str, file: Path) -> ModuleType:
    name = f"{package}.{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is the instructor's
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = getattr(error, "lineno", None) or _line_in(file, error)
        raise PrivateChecksError(
            say(
                "{file} 第 {line} 行：无法导入：{kind}: {text}",
                "{file}, line {line}: cannot be imported: {kind}: {text}",
                file=file,
                line=line,
                kind=type(error).__name__,
                text=getattr(error, "msg", None) or error,
            )
        ) from None
    finally:
        sys.dont_write_bytecode = written
    return module


def _line_in(file: Path, error: BaseException) -> int:
    trace, line = error.__traceback__, 1
    while trace:
        if Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _refusal(folder: Path, problems: Sequence[Text]) -> PrivateChecksError:
    told = [*problems[:NAMED], *([say("等等", "and more")] if len(problems) > NAMED else [])]
    return PrivateChecksError(
        say(
            "{folder} 有 {n} 处错误：{told}",
            "{folder} has {n} {mistakes}: {told}",
            folder=folder,
            n=len(problems),
            mistakes="mistake" if len(problems) == 1 else "mistakes",
            told=Text("；".join(text.zh for text in told), "; ".join(text.en for text in told)),
        )
    )


def _problems(course: Catalog, found: Sequence[tuple[Path, Check]]) -> Iterator[Text]:
    exercises = {exercise.id: (stage, exercise) for stage in course.stages for exercise in stage.exercises}
    earlier = {check.id for _, exercise in exercises.values() for check in exercise.checks}
    carried: dict[str, float] = {}
    for file, check in found:
        at = Text(*[f"{file.name}:{check.run.__code__.co_firstlineno} {check.id}"] * 2)
        if check.exercise not in exercises or not check.id.partition(".")[2]:
            yield _say(
                at,
                "编号应是「练习.名字」，练习取自 {known}",
                "the id must be EXERCISE.NAME, the exercise one of {known}",
                known=", ".join(exercises),
            )
            continue
        stage, exercise = exercises[check.exercise]
        yield from _problems_of(at, check, stage, exercise, earlier)
        earlier.add(check.id)
        carried[exercise.id] = carried.get(exercise.id, 0.0) + max(check.points, 0.0)
    for id, points in carried.items():
        most = exercises[id][1].points * MOST
        if points > most + 1e-9:
            yield say(
                "{id} 的私有检查共 {points:g} 分，最多可占这道题的一半，即 {most:g} 分",
                "the private checks of {id} carry {points:g} points; they may carry half of the exercise, {most:g}",
                id=id,
                points=points,
                most=most,
            )


def _problems_of(at: Text, check: Check, stage: Stage, exercise: Exercise, earlier: set[str]) -> Iterator[Text]:
    if check.id in earlier:
        yield _say(at, "编号已被使用，请换一个名字", "the id is taken; choose another name")
    if not (math.isfinite(check.points) and check.points >= 0 and round(check.points, 2) == check.points):
        yield _say(
            at,
            "分值 {points} 无效：应不小于 0，最多两位小数",
            "points {points}: must not be negative and have two decimals at most",
            points=check.points,
        )
    if check.concept not in stage.concepts:
        yield _say(
            at,
            "概念 {concept} 不存在，可选：{known}",
            "there is no concept {concept}; choose from {known}",
            concept=check.concept,
            known=", ".join(sorted(stage.concepts)),
        )
    for need in check.needs:
        if need not in earlier or need.split(".")[0] != exercise.id:
            yield _say(
                at,
                "needs 里的 {need} 不是 {id} 在它之前的检查",
                "needs {need}, which is no earlier check of {id}",
                need=need,
                id=exercise.id,
            )


def _say(at: Text, zh: str, en: str, **values: object) -> Text:
    return say("{at}：" + zh, "{at}: " + en, at=at, **values)


def _stage(stage: Stage, found: Iterable[tuple[Path, Check]]) -> Stage:
    mine = [check for _, check in found if check.exercise.split("-")[0] == stage.id]
    return replace(stage, exercises=[_exercise(exercise, mine) for exercise in stage.exercises])


def _exercise(exercise: Exercise, found: Iterable[Check]) -> Exercise:
    mine = [check for check in found if check.exercise == exercise.id]
    if not mine:
        return exercise
    carried = sum(round(check.points * 100) for check in mine)
    shares = _shared_out(round(exercise.points * 100) - carried, [check.points for check in exercise.checks])
    own = [replace(check, points=share / 100) for check, share in zip(exercise.checks, shares)]
    return replace(exercise, checks=own + mine)


def _shared_out(total: int, weights: Sequence[float]) -> list[int]:
    """``total`` hundredths of points in proportion to the weights, to the last one (largest remainders first)."""
    exact = [total * weight / sum(weights) for weight in weights]
    whole = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda at: (whole[at] - exact[at], at))
    for at in by_remainder[: total - sum(whole)]:
        whole[at] += 1
    return whole
