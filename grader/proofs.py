"""What the repository proves about itself. ``flashdojo dev check`` and ``tests/test_proofs.py`` run the same proofs.

A proof is a name and a function that raises :class:`Unproven` with what the author has to do. Files of the proof sets
begin with ``# flashdojo: exercise=s2-forward check=s2-forward.tails misconception=tail-dropped``; exercises of the
stage that they do not define are filled in from ``solutions/``.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from grader import catalog, notebooks, paths, submission
from grader.catalog import Exercise, Stage
from grader.lesson import split_header
from grader.proof_runner import Runner
from grader.text import LANGUAGES

KINDS = ("course", "notebooks", "skeletons", "solutions", "right", "wrong", "cheats", "hostile")
SETS = {
    "right": paths.ROOT / "tests" / "right_answers",
    "wrong": paths.ROOT / "tests" / "wrong_answers",
    "cheats": paths.ROOT / "tests" / "cheats",
    "hostile": paths.ROOT / "tests" / "hostile",
}
STAGE_FILES = {"stage.toml", "misconceptions.toml", "cells.py", "lesson.zh.md", "lesson.en.md"}
LITTER = re.compile(r"(~|\.orig|\.rej|\.bak|\.swp|\.DS_Store|-checkpoint\.ipynb)$|^(Untitled|nohup)")
MAX_NOTEBOOK = 100_000  # bytes


class Unproven(AssertionError):
    """The claim does not hold; the message tells the author where and what to change."""


@dataclass(frozen=True)
class Proof:
    kind: str
    name: str
    run: Callable[[Runner], None]
    stage: str | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}"


def collect(stage: str | None = None, kinds: Iterable[str] = KINDS) -> list[Proof]:
    """Every proof of these kinds; those about one stage only for ``stage``, if given."""
    wanted = set(kinds)
    found = [proof for proof in _all(wanted) if proof.kind in wanted]
    return [proof for proof in found if stage is None or proof.stage in (None, stage)]


def _all(wanted: set[str]) -> Iterator[Proof]:
    course = catalog.load(strict=False)
    yield Proof("course", "stage.toml, hints and checks agree", _course)
    yield Proof("course", "no stray files", _no_stray_files)
    yield Proof("notebooks", "up to date", _notebooks_fresh)
    for stage in course.stages:
        yield Proof("notebooks", f"{stage.id} is one program in two languages", partial(_same_program, stage), stage.id)
        for lang in LANGUAGES:
            yield Proof("notebooks", f"{stage.id} {lang} is small and empty", partial(_lean, stage, lang), stage.id)
            yield Proof("skeletons", f"{stage.id} {lang}", partial(_skeleton_notebook, stage, lang), stage.id)
            yield Proof("solutions", f"{stage.id} {lang}", partial(_solved_notebook, stage, lang), stage.id)
        for exercise in stage.exercises:
            yield Proof("skeletons", exercise.id, partial(_skeleton, stage, exercise), stage.id)
    for kind, prove in (("right", _right), ("wrong", _wrong), ("cheats", _cheat), ("hostile", _hostile)):
        if kind in wanted:
            for file in sample_files(kind):
                stage_id = stage_of(file)
                name = str(file.relative_to(SETS[kind]))
                yield Proof(kind, name, partial(prove, file), stage_id)


def sample_files(kind: str) -> list[Path]:
    return sorted(
        file for file in SETS[kind].rglob("*") if file.suffix in (".py", ".ipynb") and "__pycache__" not in file.parts
    )


# ------------------------------------------------------------------------------------------------ course and notebooks


def _course(_: Runner) -> None:
    problems = catalog.load(strict=False).problems
    if problems:
        raise Unproven("\n".join(problems))


def _no_stray_files(_: Runner) -> None:
    stray: list[str] = []
    for stage in catalog.load(strict=False, checks=False).stages:
        known = {exercise.solution for exercise in stage.exercises}
        folder = paths.SOLUTIONS / stage.folder
        stray += [
            f"{file}: belongs to no exercise of {stage.folder}/stage.toml"
            for file in folder.glob("*")
            if _odd(file, known)
        ]
        stray += [
            f"{file}: no part of a stage (known: {', '.join(sorted(STAGE_FILES))} and modules)"
            for file in stage.path.iterdir()
            if file.is_file() and file.name not in STAGE_FILES and file.suffix != ".py"
        ]
        stray += [f"{file}: named by stage.toml, but not there" for file in known if not file.is_file()]
    for top in ("docs", "examples", "grader", "kernels", "notebooks", "solutions", "stages", "tests"):
        for file in (paths.ROOT / top).rglob("*"):
            if LITTER.search(file.name) and ".ipynb_checkpoints" not in file.parts:
                stray.append(f"{file}: litter; remove it")
    for kind, folder in SETS.items():
        stray += [
            f"{file}: not a {kind} sample"
            for file in folder.rglob("*")
            if file.is_file() and file.suffix not in (".py", ".ipynb", ".pyc")
        ]
    if stray:
        raise Unproven("\n".join(stray))


def _odd(file: Path, known: set[Path]) -> bool:
    return file.is_file() and file not in known


def _notebooks_fresh(_: Runner) -> None:
    old = notebooks.stale()
    if old:
        raise Unproven(f"out of date: {', '.join(str(path) for path in old)}. Run `flashdojo dev build` and commit.")


def _same_program(stage: Stage, _: Runner) -> None:
    first, second = (notebooks.build(stage, lang) for lang in LANGUAGES)
    if not notebooks.same_program(first, second):
        raise Unproven(
            f"{stage.folder}: two languages, two programs; code may differ only in lines `# zh:` and `# en:`"
        )


def _lean(stage: Stage, lang: str, _: Runner) -> None:
    import nbformat

    path = notebooks.path_of(stage, lang)
    if path.stat().st_size >= MAX_NOTEBOOK:
        raise Unproven(f"{path}: {path.stat().st_size} bytes; a notebook has to stay under {MAX_NOTEBOOK}")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    if any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells):
        raise Unproven(f"{path}: holds outputs. Run `flashdojo dev build`.")


# --------------------------------------------------------------------------------------------- skeletons and solutions


def _skeleton_notebook(stage: Stage, lang: str, runner: Runner) -> None:
    for row in runner.grade(notebooks.path_of(stage, lang), stage)["exercises"]:
        _earns_nothing(row, f"the untouched notebook earns points for {row['id']}: a check passes without an answer")


def _solved_notebook(stage: Stage, lang: str, runner: Runner) -> None:
    text = notebooks.text_of(notebooks.solve(notebooks.build(stage, lang)))
    with _file(f"{stage.folder}.{lang}.ipynb", text) as path:
        _full_marks(runner.grade(path, stage), f"solutions/{stage.folder}")


def _skeleton(stage: Stage, exercise: Exercise, runner: Runner) -> None:
    """The others solved, so that nothing but the missing answer can make it fail."""
    for lang in LANGUAGES:
        compile(notebooks.skeleton(exercise, lang), f"{exercise.id} {lang}", "exec")
    imports = split_header(exercise.solution.read_text("utf-8"))[0]
    text = _with_solutions(stage, f"{imports}\n\n{notebooks.skeleton(exercise, 'en')}", {exercise.name})
    with _file("skeleton.py", text) as path:
        (row,) = runner.grade(path, stage, exercises={exercise.id})["exercises"]
    _earns_nothing(row, f"the skeleton of {exercise.id} earns points: a check passes without an answer")
    if any(check["status"] == "failed" and check["misconception"] != "not-implemented" for check in row["checks"]):
        raise Unproven(
            f"{exercise.id}: the skeleton fails for another reason than its NotImplementedError: {_story(row)}"
        )


# ---------------------------------------------------------------------------------------------------------- proof sets


def _right(file: Path, runner: Runner) -> None:
    _full_marks(runner.grade(file, _stage(file)), file.name)


def _wrong(file: Path, runner: Runner) -> None:
    stage, header = _stage(file), header_of(file)
    target = stage.exercise(header["exercise"])
    with _completed(file, stage) as path:
        answer = runner.grade(path, stage)
    rows = {row["id"]: row for row in answer["exercises"]}
    checks = {check["id"]: check for check in rows[target.id]["checks"]}
    for name in header["check"].split(","):
        if name not in checks:
            raise Unproven(f"{file.name}: names the check {name}, which {target.id} does not have")
        if checks[name]["status"] == "passed":
            raise Unproven(f"{file.name}: {name} passes; it is meant to catch this. {_story(rows[target.id])}")
    named = {check["misconception"] for check in checks.values() if check["misconception"]}
    wanted = header.get("misconception", "-")
    if wanted != "-" and wanted not in named:
        got = ", ".join(sorted(named)) or "nothing"
        raise Unproven(f"{file.name}: {wanted} is not named (named: {got}). {_story(rows[target.id])}")
    others = named - {wanted} - set(filter(None, header.get("also", "").split(",")))
    if others:
        raise Unproven(
            f"{file.name}: {', '.join(sorted(others))} is named, which is not what is wrong. {_story(rows[target.id])}"
        )
    for row in answer["exercises"]:
        if row["id"] != target.id and target.name not in _uses(stage.exercise(row["id"]), stage):
            _full_marks({"exercises": [row]}, f"{file.name}, an exercise that is not the wrong one")


def _cheat(file: Path, runner: Runner) -> None:
    stage = _stage(file)
    with _completed(file, stage) as path:
        answer = runner.grade(path, stage)
    for row in answer["exercises"]:
        if row["id"] in header_of(file)["exercise"].split(","):
            _earns_nothing(row, f"{file.name} cheats and earns points")


def _hostile(file: Path, runner: Runner) -> None:
    stage, header = _stage(file), header_of(file)
    with _completed(file, stage) as path:
        answer = runner.grade_hostile(path, stage)
    for row in answer["exercises"]:
        if header["exercise"] == "all" or row["id"] in header["exercise"].split(","):
            _earns_nothing(row, f"{file.name} is hostile and earns points")


def header_of(file: Path) -> dict[str, str]:
    """``{"exercise": ..., "check": ..., "misconception": ...}`` of a sample; raises :class:`Unproven` without one."""
    lines = re.findall(r"^# flashdojo: (.*)$", file.read_text("utf-8", "replace"), re.M)
    header = dict(field.split("=", 1) for line in lines for field in line.split())
    if "exercise" not in header:
        raise Unproven(f"{file}: begins without a line `# flashdojo: exercise=...`")
    return header


def stage_of(file: Path) -> str:
    """By the folder ``s2/``, else by the header."""
    folder = next((part for part in file.parts[::-1] if re.fullmatch(r"s\d+", part)), None)
    if folder:
        return folder
    header = header_of(file)
    return header.get("stage") or header["exercise"].split("-")[0]


def _stage(file: Path) -> Stage:
    return catalog.load(strict=False).stage(stage_of(file))


# --------------------------------------------------------------------------------------------------------------- tools


def _completed(file: Path, stage: Stage) -> Any:
    """The sample as a file in which the exercises that it leaves out are solved."""
    text = file.read_text("utf-8", "surrogateescape")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _file(file.name, text)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names |= {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return _file(file.name, _with_solutions(stage, text, names))


def _with_solutions(stage: Stage, text: str, defined: set[str]) -> str:
    """``text`` behind the solutions of all exercises whose names it does not define."""
    parts = [exercise.solution.read_text("utf-8") for exercise in stage.exercises if exercise.name not in defined]
    return "\n\n".join([*parts, text])


class _file:
    """``with _file("a.py", text) as path``: a file of that name in a folder of its own."""

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text

    def __enter__(self) -> Path:
        self.folder = tempfile.TemporaryDirectory(prefix="flashdojo-proof-")
        path = Path(self.folder.name, self.name)
        path.write_text(self.text, "utf-8", "surrogateescape")
        return path

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def _uses(exercise: Exercise, stage: Stage) -> set[str]:
    """Names of the stage's exercises that the solution of this one rests on, however indirectly."""
    by_name = {other.name: other for other in stage.exercises}
    found: set[str] = set()
    todo = [exercise]
    while todo:
        text = todo.pop().solution.read_text("utf-8")
        for name in set(re.findall(r"[A-Za-z_]\w*", text)) & by_name.keys() - found:
            found.add(name)
            todo.append(by_name[name])
    return found - {exercise.name}


def _full_marks(answer: dict[str, Any], what: str) -> None:
    for row in answer["exercises"]:
        if any(check["status"] not in ("passed", "not_measured") for check in row["checks"]):
            raise Unproven(f"{what}: {row['id']} gets {row['score']:g} of {row['max_score']:g}. {_story(row)}")


def _earns_nothing(row: dict[str, Any], what: str) -> None:
    if row["score"] > 0 or all(check["status"] == "passed" for check in row["checks"]):
        raise Unproven(f"{what} ({row['score']:g}). {_story(row)}")


def _story(row: dict[str, Any]) -> str:
    lines = [
        f"  {check['id']}: {check['status']} {check['misconception'] or ''} {check['message']['en']}"
        for check in row["checks"]
        if check["status"] != "blocked"
    ]
    return "\n" + "\n".join(lines)


__all__ = ["KINDS", "Proof", "Runner", "Unproven", "collect", "header_of", "sample_files", "stage_of", "submission"]
