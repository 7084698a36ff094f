"""What a course's ``nbgrader_config.py`` calls: nbgrader as it is, with the judge in the place of Execute."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from grader.classroom import validating
from grader.classroom.preflight import require_ready
from grader.classroom.source import stub

SECRET_FILE = "secret.key"


def configure(config: Any, folder: Path | str, *, lang: str) -> None:
    """Set the traits of a course in ``folder``. Everything that is not about grading stays with the instructor.

    ``config``: what ``get_config()`` gives. ``lang``: of the notebooks, ``zh`` or ``en``. Settings that come after this
    call in ``nbgrader_config.py`` win.
    """
    from nbconvert.preprocessors import ClearMetadataPreprocessor
    from nbgrader.preprocessors import (
        AssignLatePenalties,
        CheckCellMetadata,
        ClearOutput,
        DeduplicateIds,
        IgnorePattern,
        LimitOutput,
        OverwriteCells,
        OverwriteKernelspec,
        SaveAutoGrades,
    )  # fmt: skip

    from grader.classroom.collecting import CollectNoLinks
    from grader.classroom.judge_cells import JudgeCells
    from grader.classroom.reading import SturdyExporter
    from grader.classroom.repair_cells import RepairCells

    course = Path(folder).resolve()
    require_ready(course, sys.argv)
    _find_commands()
    validating.tell_the_truth()
    config.CourseDirectory.root = str(course)
    config.ClearSolutions.code_stub = {"python": stub(lang)}
    config.ExchangeFactory.collect = CollectNoLinks
    config.Autograde.exporter_class = SturdyExporter
    config.Autograde.sanitize_preprocessors = [
        ClearOutput, RepairCells, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
    ]  # fmt: skip
    config.Autograde.autograde_preprocessors = [
        JudgeCells, IgnorePattern, ClearMetadataPreprocessor, LimitOutput, SaveAutoGrades, AssignLatePenalties,
        CheckCellMetadata,
    ]  # fmt: skip
    config.RepairCells.course = str(course)
    config.JudgeCells.course = str(course)
    config.JudgeCells.secret_file = str(course / SECRET_FILE)


def _find_commands() -> None:
    """nbgrader calls ``alembic`` by its name, which lies beside this interpreter whether or not that is on PATH."""
    here = str(Path(sys.executable).parent)
    places = os.environ.get("PATH", "").split(os.pathsep)
    if here not in places:
        os.environ["PATH"] = os.pathsep.join([here, *places])
