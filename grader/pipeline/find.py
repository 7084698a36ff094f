"""The submissions in a repository: the course's notebooks, wherever they lie, on which somebody has begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from grader.course import catalog, notebooks
from grader.reading import submission
from grader.reading.submission import Program, Unreadable


@dataclass
class Found:
    to_grade: list[Path] = field(default_factory=list)
    untouched: list[Path] = field(default_factory=list)  # as ./dojo start made them


def find(folder: Path) -> Found:
    """A notebook that cannot be read is one to grade: its author shall hear why. Hidden folders are left out, links out
    of the folder too."""
    found = Found()
    for path in submission.collect(folder):
        if path.suffix.lower() != ".ipynb" or submission.leads_outside(path, folder):
            continue
        try:
            program = submission.read(path)
        except Unreadable:
            found.to_grade.append(path)
            continue
        if program.stage is not None:
            (found.untouched if is_untouched(program) else found.to_grade).append(path)
    return found


def is_untouched(program: Program) -> bool:
    """Whether every exercise of its stage is still the skeleton."""
    course = catalog.load(checks=False)
    try:
        stage = course.stage(program.stage or "")
    except catalog.UnknownStage:
        return False
    sources = {cell.grade_id: cell.source.strip() for cell in program.cells if cell.grade_id}
    language = program.language or "en"
    return all(
        sources.get(exercise.id) == notebooks.skeleton(exercise, language).strip() for exercise in stage.exercises
    )
