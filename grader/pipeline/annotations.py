"""What is wrong, and on which line of which file: made from the result document."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.pipeline.places import Places
from grader.reading import submission
from grader.reading.submission import Program, Unreadable
from grader.subject import Where
from grader.text import Text, say
from grader.views.content import Line, blocks


@dataclass(frozen=True)
class Annotation:
    file: str  # relative to the repository, with slashes
    line: int  # from 1
    check: str
    title: Text
    message: Text
    weight: float  # points that it costs

    @property
    def fingerprint(self) -> str:
        """The same from push to push while the same check of the same file fails."""
        return hashlib.sha256(f"{self.file}\0{self.check}".encode("utf-8", "surrogateescape")).hexdigest()


def notes_of(document: Mapping[str, Any], root: Path) -> list[Annotation]:
    """Of every submission what its author should look at first, the dearest first. Checks that wait for another one
    are left out: that one is there."""
    found = [note for entry in document["submissions"] for note in _of(entry, root)]
    return sorted(found, key=lambda note: -note.weight)


def _of(entry: Mapping[str, Any], root: Path) -> Iterator[Annotation]:
    path = Path(entry["path"])
    file = relative(path, root)
    if entry["status"] != "graded":
        message = Text(**entry["message"]) if entry["message"] else say("无法评分。", "cannot be graded.")
        title = say("无法评分", "cannot be graded")
        yield Annotation(file, 1, entry["status"], title, message, entry["max_score"])
        return
    places, program = Places(path), _program(path)
    raw = {check["id"]: check for exercise in entry["exercises"] for check in exercise["checks"]}
    for block in blocks(entry):
        at_definition = places.line(_definition(program, block.id, block.name))
        problems = [line for line in block.problems if line.status != "blocked" and not line.repeats]
        for line in problems[:1] if block.untouched else problems:
            where = raw[line.id]["where"]
            title = say("{id}：{title}", "{id}: {title}", id=line.id, title=line.title)
            number = places.line(Where(**where)) if where else at_definition
            yield Annotation(file, number, line.id, title, _message(line), line.points)


def _message(line: Line) -> Text:
    """What the terminal says too, in one piece."""
    message = line.message
    if line.idea:
        name, explain = line.idea
        message = Text(f"{name.zh}。{explain.zh}{message.zh}", f"{name.en}. {explain.en} {message.en}")
    if line.facts:
        facts = Text(
            "；".join(f"{label.zh}：{value}" for label, value in line.facts),
            "; ".join(f"{label.en}: {value}" for label, value in line.facts),
        )
        message = message.plus(say("（{it}）", "({it})", it=facts))
    return message


def relative(path: Path, root: Path) -> str:
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def _program(path: Path) -> Program | None:
    try:
        return submission.read(path)
    except Unreadable:  # gone meanwhile
        return None


def _definition(program: Program | None, exercise: str, name: str) -> Where | None:
    """Where the exercise's name is defined, else its cell."""
    cells = program.cells if program else []
    for cell in reversed(cells):
        for node in cell.tree.body if cell.tree else ():
            if getattr(node, "name", None) == name:
                return Where(cell.number, node.lineno)
    for cell in cells:
        if cell.grade_id in (exercise, f"{exercise}-answer"):  # our notebook's, and the one that nbgrader released
            return Where(cell.number, 1)
    return None
