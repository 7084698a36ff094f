"""Which stage a program belongs to, and what is said when that is not clear: the same for checking and grading."""

from __future__ import annotations

import re

from grader import results
from grader.course.catalog import Catalog, Stage, UnknownStage
from grader.reading.submission import Program, Unreadable, shown
from grader.text import Text, listed, say

DEFINITION = re.compile(r"^(?:(?:def|class)\s+(\w+)|(\w+)\s*=(?!=))", re.MULTILINE)


def said(program: Program, course: Catalog) -> Stage:
    """The stage that the notebook names; raises :class:`Unreadable` when there is none."""
    known = listed(stage.id for stage in course.stages)
    if program.stage is None:
        raise Unreadable(
            say(
                "{path}：没有说明属于哪个阶段，请加 --stage（{known}）。",
                "{path}: does not say which stage it belongs to; add --stage ({known}).",
                path=shown(program.path),
                known=known,
            )
        )
    try:
        return course.stage(program.stage)
    except UnknownStage:
        raise Unreadable(
            say(
                "{path}：笔记本标着阶段 {stage}，没有这个阶段；请用 --stage 指定（{known}）。",
                "{path}: the notebook says stage {stage}, which does not exist; give one with --stage ({known}).",
                path=shown(program.path),
                stage=results.clean(program.stage),
                known=known,
            )
        ) from None


def guessed(program: Program, course: Catalog) -> Stage | None:
    """The only stage any of whose names the program defines, going by its text: a syntax error takes no stage away."""
    text = "\n".join(cell.source for cell in program.cells)
    names = {defined or assigned for defined, assigned in DEFINITION.findall(text)}
    fitting = [stage for stage in course.stages if any(exercise.name in names for exercise in stage.exercises)]
    return fitting[0] if len(fitting) == 1 else None


def mismatch(program: Program, stage: Stage) -> Text | None:
    """What to say when a notebook of another stage is taken for one of ``stage``."""
    if program.stage in (None, stage.id):
        return None
    return say(
        "{path}：这是阶段 {own} 的笔记本，不是 {stage} 的。去掉 --stage，或换成 {stage} 的文件。",
        "{path}: a notebook of stage {own}, not of {stage}. Leave --stage out, or name a file of {stage}.",
        path=shown(program.path),
        own=results.clean(program.stage),
        stage=stage.id,
    )
