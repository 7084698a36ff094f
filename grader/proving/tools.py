"""What the proofs are made of: samples as complete files, and claims about the answers they get."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.course.catalog import Stage
from grader.proving import handed_in
from grader.results import FINE
from grader.syntax import tree_of


class Unproven(AssertionError):
    """The claim does not hold; the message tells the author where and what to change."""


def completed(file: Path, stage: Stage, *, writes: bool = False) -> Any:
    """The sample as a file in which the exercises that it leaves out are solved. ``writes``: it is a program that
    writes its files, and says nothing else."""
    text = file.read_text("utf-8", "surrogateescape")
    beside = handed_in.of_sample(file, stage) if writes else handed_in.of_solutions(stage)
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return TemporaryFile(file.name, text, beside)
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
    return TemporaryFile(file.name, with_solutions(stage, "" if writes else text, names), beside)


def with_solutions(stage: Stage, text: str, defined: set[str]) -> str:
    """``text`` behind the solutions of all exercises whose names it does not define."""
    missing = [exercise for exercise in stage.exercises if exercise.name not in defined and not exercise.is_artifact]
    parts = [exercise.solution.read_text("utf-8") for exercise in missing]
    return "\n\n".join([*parts, text])


class TemporaryFile:
    """``with TemporaryFile("a.py", text) as path``: a file of that name in a folder of its own, with what is handed in
    beside it."""

    def __init__(self, name: str, content: str | bytes, beside: Mapping[str, bytes] | None = None):
        self.name, self.beside = name, beside or {}
        self.content = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content

    def __enter__(self) -> Path:
        self.folder = tempfile.TemporaryDirectory(prefix="flashdojo-proof-")
        path = Path(self.folder.name, self.name)
        path.write_bytes(self.content)
        for name, data in self.beside.items():
            (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / name).write_bytes(data)
        return path

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def full_marks(answer: dict[str, Any], what: str) -> None:
    for row in answer["exercises"]:
        if any(check["status"] not in FINE for check in row["checks"]):
            raise Unproven(f"{what}: {row['id']} gets {row['score']:g} of {row['max_score']:g}. {story(row)}")


def earns_nothing(row: dict[str, Any], what: str) -> None:
    if row["score"] > 0 or all(check["status"] in FINE for check in row["checks"]):
        raise Unproven(f"{what} ({row['score']:g}). {story(row)}")


def story(row: dict[str, Any]) -> str:
    lines = [
        f"  {check['id']}: {check['status']} {check['misconception'] or ''} {check['message']['en']}"
        for check in row["checks"]
        if check["status"] != "blocked"
    ]
    return "\n" + "\n".join(lines)
