"""What a learner has done in one work folder: ``<folder>/.flashdojo/progress.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grader import paths
from grader.files import write_whole
from grader.results import FINE

FOLDER = ".flashdojo"


class Progress:
    """Per exercise: best points, whether every public check has passed, the hint level that was shown.

    A file that cannot be read counts as empty (progress is a convenience, never a grade); one that cannot be written
    raises OSError.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.file = self.folder / FOLDER / "progress.json"
        self.exercises: dict[str, dict[str, Any]] = _read(self.file)

    def passed(self, exercise: str) -> bool:
        return bool(self.exercises.get(exercise, {}).get("passed"))

    def best(self, exercise: str) -> float:
        return float(self.exercises.get(exercise, {}).get("best", 0))

    def hints(self, exercise: str) -> int:
        return int(self.exercises.get(exercise, {}).get("hints", 0))

    def show_hint(self, exercise: str, level: int) -> None:
        self._row(exercise)["hints"] = level
        self.save()

    def record(self, exercises: Iterable[Mapping[str, Any]]) -> None:
        """Keep what a check gave; ``exercises`` as in a result document."""
        for exercise in exercises:
            row = self._row(exercise["id"])
            row["best"] = max(float(row.get("best", 0)), float(exercise["score"]))
            row["passed"] = bool(row.get("passed")) or all(
                check["status"] in FINE for check in exercise["checks"]
            )
        self.save()

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": 1, "exercises": self.exercises}, indent=1, sort_keys=True)
        write_whole(self.file, text)

    def _row(self, exercise: str) -> dict[str, Any]:
        return self.exercises.setdefault(exercise, {})


def work_folder(stage: str, given: Path | None = None) -> Path:
    """The folder that a command about one stage works with: the given one, else here when this is a work folder,
    else ``work/<stage>`` here or in the clone."""
    if given is not None:
        return given
    here = Path.cwd()
    if (here / FOLDER).is_dir():
        return here
    return next((p for p in (here / "work" / stage, paths.ROOT / "work" / stage) if p.is_dir()), here / "work" / stage)


def keeps_progress(target: Path) -> bool:
    """Whether checking ``target`` leaves progress beside it: not among the repository's own files."""
    folder = target.resolve().parent
    return not folder.is_relative_to(paths.ROOT) or folder.is_relative_to(paths.ROOT / "work")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        rows = json.loads(file.read_text("utf-8"))["exercises"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {str(key): dict(row) for key, row in rows.items() if isinstance(row, dict)}
