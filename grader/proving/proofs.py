"""What the repository proves about itself. ``flashdojo dev check`` and ``tests/test_proofs.py`` run the same proofs.

A proof is a name and a function that raises :class:`Unproven` with what the author has to do.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader import paths
from grader.course import catalog, notebooks
from grader.course.catalog import Exercise, Stage
from grader.course.lesson import split_header
from grader.proving import handed_in
from grader.proving.runner import Runner
from grader.proving.samples import SETS, cheat, hostile, right, sample_files, stage_of, wrong
from grader.proving.tools import TemporaryFile, Unproven, earns_nothing, full_marks, story, with_solutions
from grader.text import LANGUAGES

KINDS = ("course", "notebooks", "runs", "skeletons", "solutions", "right", "wrong", "cheats", "hostile")
STAGE_FILES = {"stage.toml", "misconceptions.toml", "cells.py", "lesson.zh.md", "lesson.en.md", "corpus.txt"}
LITTER = re.compile(r"(~|\.orig|\.rej|\.bak|\.swp|\.DS_Store|-checkpoint\.ipynb)$|^(Untitled|nohup)")


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
            yield Proof("runs", f"{stage.id} {lang} from top to bottom", partial(_runs, stage, lang), stage.id)
            yield Proof("skeletons", f"{stage.id} {lang}", partial(_skeleton_notebook, stage, lang), stage.id)
        yield Proof("solutions", stage.id, partial(_solved_notebook, stage), stage.id)
        for exercise in stage.exercises:
            yield Proof("skeletons", exercise.id, partial(_skeleton, stage, exercise), stage.id)
    for kind, prove in (("right", right), ("wrong", wrong), ("cheats", cheat), ("hostile", hostile)):
        if kind in wanted:
            for file in sample_files(kind):
                stage_id = stage_of(file)
                name = str(file.relative_to(SETS[kind]))
                yield Proof(kind, name, partial(prove, file), stage_id)


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
    if path.stat().st_size >= notebooks.MAX_BYTES:
        raise Unproven(f"{path}: {path.stat().st_size} bytes; a notebook has to stay under {notebooks.MAX_BYTES}")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    if any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells):
        raise Unproven(f"{path}: holds outputs. Run `flashdojo dev build`.")


def _runs(stage: Stage, lang: str, _: Runner) -> None:
    """The solved notebook in a kernel: no cell fails, and every check answers with all its points."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = notebooks.solve(notebooks.build(stage, lang))
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT), "MPLBACKEND": "agg"}
    with tempfile.TemporaryDirectory(prefix="flashdojo-proof-") as folder:
        client = NotebookClient(notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": folder}})
        try:
            client.execute(env=environment, stderr=subprocess.DEVNULL)
        except (CellExecutionError, CellTimeoutError) as error:
            raise Unproven(f"{stage.folder} {lang}: {error}") from None
    for cell in notebook.cells:
        own = cell.metadata.flashdojo
        if own.role == "check":
            public = sum(check.points for check in stage.exercise(own.exercise).checks if check.public)
            answer = cell.outputs[0].get("data", {}).get("text/plain") if cell.outputs else None
            if answer != f"{public:g}":
                raise Unproven(f"{stage.folder} {lang}: check({own.exercise!r}) answers {answer}, not {public:g}")


# --------------------------------------------------------------------------------------------- skeletons and solutions


def _skeleton_notebook(stage: Stage, lang: str, runner: Runner) -> None:
    for row in runner.grade(notebooks.path_of(stage, lang), stage)["exercises"]:
        earns_nothing(row, f"the untouched notebook earns points for {row['id']}: a check passes without an answer")


def _solved_notebook(stage: Stage, runner: Runner) -> None:
    """In one language: that both are the same program is proved by itself."""
    lang = LANGUAGES[0]
    text = notebooks.text_of(notebooks.solve(notebooks.build(stage, lang)))
    with TemporaryFile(f"{stage.folder}.{lang}.ipynb", text, handed_in.of_solutions(stage)) as path:
        full_marks(runner.grade(path, stage), f"solutions/{stage.folder}")


def _skeleton(stage: Stage, exercise: Exercise, runner: Runner) -> None:
    """The others solved, so that nothing but the missing answer can make it fail."""
    for lang in LANGUAGES:
        compile(notebooks.skeleton(exercise, lang), f"{exercise.id} {lang}", "exec")
    imports = "\n".join(split_header(exercise.solution.read_text("utf-8"))[0])
    text = with_solutions(stage, f"{imports}\n\n{notebooks.skeleton(exercise, 'en')}", {exercise.name})
    beside = handed_in.of_solutions(stage, without=exercise.id if exercise.is_artifact else None)
    with TemporaryFile("skeleton.py", text, beside) as path:
        (row,) = runner.grade(path, stage, exercises={exercise.id})["exercises"]
    earns_nothing(row, f"the skeleton of {exercise.id} earns points: a check passes without an answer")
    reason = "artifact-missing" if exercise.is_artifact else "not-implemented"
    if any(check["status"] == "failed" and check["misconception"] != reason for check in row["checks"]):
        raise Unproven(f"{exercise.id}: the skeleton fails for another reason than {reason}: {story(row)}")


__all__ = ["KINDS", "SETS", "Proof", "Runner", "Unproven", "collect"]
