"""What a command asks of the performance model: the words of the command line become a chip, a shape, a schedule."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from grader.checking.model_errors import shortened
from grader.profiling.errors import CannotAnswer, refuse
from grader.text import listed, say
from kernels.perf import SCHEDULES, BadSchedule, BadShape, Schedule, Shape, Soc, UnknownSoc, find_soc, schedule_for

USUAL = {"3510": "v8", "2201": "cann"}
MOST_NAMES = 10  # of a file, in a line
BIGGEST = 100_000  # bytes of a schedule file; a schedule has some thirty numbers


def chip(name: str) -> Soc:
    try:
        return find_soc(name)
    except UnknownSoc as error:
        raise refuse(error) from error


def size(text: str, dtype: str, mask: str) -> Shape:
    try:
        return Shape.parse(text, dtype=dtype, mask=mask)
    except BadShape as error:
        raise refuse(error) from error


def usual(soc: Soc) -> str:
    """The name of the best measured schedule of the chip's kind."""
    return USUAL[soc.arch]


def order(text: str, soc: Soc, shape: Shape) -> Schedule:
    """A schedule by its name, from a JSON file, or from one entry of a file of several: FILE:ENTRY.

    A kernel's own schedule may depend on chip and shape.
    """
    if text in SCHEDULES:
        return schedule_for(text, soc, shape)
    file, entry = Path(text), ""
    if not _is_file(file):
        name, _, entry = text.rpartition(":")
        file = Path(name)
    if not _is_file(file):
        near = difflib.get_close_matches(text, SCHEDULES, n=1)
        names = ", ".join(SCHEDULES)
        raise CannotAnswer(
            say(
                "没有名为 {text} 的调度，也没有这个文件。{near}已有的名字：{names}。",
                "there is no schedule and no file called {text}. {near_en}Names: {names}.",
                text=shortened(text),
                names=names,
                near=f"你要的是不是 {near[0]}？" if near else "",
                near_en=f"Did you mean {near[0]}? " if near else "",
            )
        )
    if file.stat().st_size > BIGGEST:
        raise CannotAnswer(say("{file} 太大，不是调度文件。", "{file} is too large to be a schedule.", file=file))
    try:
        content = file.read_text("utf-8-sig")
        return Schedule.from_json(_entry(content, entry, file) if entry else content)
    except UnicodeDecodeError as error:
        raise CannotAnswer(say("{file} 不是 UTF-8 文本。", "{file} is not UTF-8 text.", file=file)) from error
    except BadSchedule as error:
        raise refuse(error, file) from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for one
        return False


def _entry(content: str, entry: str, file: Path) -> Any:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadSchedule("", entry, f"no JSON that can be read: {error}") from error
    if not isinstance(found, dict) or entry not in found:
        raise CannotAnswer(
            say(
                "{file} 里没有 {entry} 这一项，有的是：{names}。",
                "{file} has no entry {entry}; there are: {names}.",
                file=file,
                entry=shortened(entry),
                names=listed(map(shortened, list(found)[:MOST_NAMES])) if isinstance(found, dict) else "–",
            )
        )
    return found[entry]
