"""The proof sets under ``tests/``: right answers, wrong answers, cheats, hostile submissions, and what each must get.

A sample begins with ``# flashdojo: exercise=s2-forward check=s2-forward.tails misconception=tail-dropped``; exercises
of the stage that it does not define are filled in from ``solutions/``. One for an exercise whose answer is a file is
the program that writes it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from grader import paths
from grader.course import catalog
from grader.course.catalog import Stage
from grader.proving.runner import Runner
from grader.proving.tools import TemporaryFile, Unproven, completed, earns_nothing, full_marks, story

SETS = {
    "right": paths.ROOT / "tests" / "right_answers",
    "wrong": paths.ROOT / "tests" / "wrong_answers",
    "cheats": paths.ROOT / "tests" / "cheats",
    "hostile": paths.ROOT / "tests" / "hostile",
}


def sample_files(kind: str) -> list[Path]:
    return sorted(
        file for file in SETS[kind].rglob("*") if file.suffix in (".py", ".ipynb") and "__pycache__" not in file.parts
    )


def right(file: Path, runner: Runner) -> None:
    """Of a sample with a header only the exercises that it names: the others are solved, which is proved elsewhere."""
    stage, named = _stage(file), asked(file)
    if not named:
        full_marks(runner.grade(file, stage), file.name)
        return
    with _completed(file, stage) as path:
        full_marks(runner.grade(path, stage, exercises=set(named)), file.name)


def wrong(file: Path, runner: Runner) -> None:
    stage, header = _stage(file), header_of(file)
    target = stage.exercise(header["exercise"])
    with _completed(file, stage) as path:
        (row,) = runner.grade(path, stage, exercises={target.id})["exercises"]
    checks = {check["id"]: check for check in row["checks"]}
    for name in header["check"].split(","):
        if name not in checks:
            raise Unproven(f"{file.name}: names the check {name}, which {target.id} does not have")
        if checks[name]["status"] == "passed":
            raise Unproven(f"{file.name}: {name} passes; it is meant to catch this. {story(row)}")
    named = {check["misconception"] for check in checks.values() if check["misconception"]}
    wanted = header.get("misconception", "-")
    if wanted != "-" and wanted not in named:
        got = ", ".join(sorted(named)) or "nothing"
        raise Unproven(f"{file.name}: {wanted} is not named (named: {got}). {story(row)}")
    others = named - {wanted} - set(filter(None, header.get("also", "").split(",")))
    if others:
        raise Unproven(f"{file.name}: {', '.join(sorted(others))} is named, which is not what is wrong. {story(row)}")


def cheat(file: Path, runner: Runner) -> None:
    stage = _stage(file)
    targets = {stage.exercise(id).id for id in header_of(file)["exercise"].split(",")}
    with _completed(file, stage) as path:
        answer = runner.grade(path, stage, exercises=targets)
    for row in answer["exercises"]:
        earns_nothing(row, f"{file.name} cheats and earns points")


def hostile(file: Path, runner: Runner) -> None:
    """``exercise=all`` in its header: loading it is hostile, so nothing is filled in and nothing may be earned."""
    stage, targets = _stage(file), header_of(file)["exercise"]
    with TemporaryFile(file.name, file.read_bytes()) if targets == "all" else _completed(file, stage) as path:
        answer = runner.grade_hostile(path, stage)
    for row in answer["exercises"]:
        if targets == "all" or row["id"] in targets.split(","):
            earns_nothing(row, f"{file.name} is hostile and earns points")


def header_of(file: Path) -> dict[str, str]:
    """``{"exercise": ..., "check": ..., "misconception": ...}`` of a sample; raises :class:`Unproven` without one."""
    header = _fields(file)
    if "exercise" not in header:
        raise Unproven(f"{file}: begins without a line `# flashdojo: exercise=...`")
    return header


def asked(file: Path) -> tuple[str, ...]:
    """The exercises that a right answer's header names; none when it is about the whole stage."""
    return tuple(filter(None, _fields(file).get("exercise", "").split(",")))


def _fields(file: Path) -> dict[str, str]:
    lines = re.findall(r"^# flashdojo: (.*)$", file.read_text("utf-8", "replace"), re.M)
    return dict(field.split("=", 1) for line in lines for field in line.split())


def stage_of(file: Path) -> str:
    """By the folder ``s2/``, else by the header."""
    folder = next((part for part in file.parts[::-1] if re.fullmatch(r"s\d+", part)), None)
    if folder:
        return folder
    header = header_of(file)
    return header.get("stage") or header["exercise"].split("-")[0]


def _completed(file: Path, stage: Stage) -> Any:
    asked = header_of(file)["exercise"].split(",")
    return completed(file, stage, writes=any(stage.exercise(id).is_artifact for id in asked))


def _stage(file: Path) -> Stage:
    return catalog.load(strict=False).stage(stage_of(file))
