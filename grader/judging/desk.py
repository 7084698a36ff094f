"""A desk at which one program after another is graded: the template is started once and kept."""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType
from typing import Any

from grader.course.catalog import Stage
from grader.inputs import Secret
from grader.judging.grade import require_clone, subjects
from grader.judging.judge import grade_program
from grader.reading.submission import Program
from grader.threads import one_thread
from grader.wall.limits import Limits
from grader.wall.workers import Template


class Desk:
    """``with Desk() as desk: desk.grade(program, stage)``: an element of a result document's ``submissions``."""

    def __init__(self, limits: Limits | None = None, template: Template | None = None):
        """``template``: one that the caller keeps, and closes; else the desk has its own."""
        require_clone()
        self.limits, self.template, self._own = limits, template or Template(), template is None

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._own:
            self.template.close()

    def grade(
        self,
        program: Program,
        stage: Stage,
        *,
        student: str = "",
        secret: Secret | None = None,
        only_public: bool = False,
        exercises: Collection[str] | None = None,
    ) -> dict[str, Any]:
        with one_thread():
            return grade_program(
                program,
                stage,
                student=student,
                secret=secret or Secret(),
                subject_factory=subjects(self.template, program, device=stage.device, limits=self.limits),
                only_public=only_public,
                exercises=exercises,
            )
