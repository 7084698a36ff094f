"""Checks run as ``check()`` runs them: on live functions, in this process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import torch

import kernels.ascend  # noqa: F401  the emulated NPU has to be there before anything runs backward
from grader.course import catalog
from grader.inputs import Secret
from grader.live.device import device
from grader.live.subject import LiveSubject
from grader.proving import handed_in
from grader.subject import SubjectError
from grader.vocabulary import CheckFailed, Context, NotMeasured

torch.set_num_threads(1)  # several test processes share the machine


@dataclass
class Graded:
    """What became of the checks of some exercises."""

    status: dict[str, str] = field(default_factory=dict)
    named: dict[str, str | None] = field(default_factory=dict)  # failed check -> misconception
    messages: dict[str, str] = field(default_factory=dict)
    points: float = 0.0

    @property
    def failed(self) -> list[str]:
        return [id for id, status in self.status.items() if status in ("failed", "error")]


def solutions(stage: str) -> str:
    exercises = catalog.load().stage(stage).exercises
    return "\n".join(exercise.solution.read_text("utf-8") for exercise in exercises if not exercise.is_artifact)


def grade(
    stage: str,
    source: str,
    *,
    exercises: tuple[str, ...] = (),
    secret: str = "tests",
    student: str = "",
    files: Mapping[str, bytes] | None = None,
) -> Graded:
    """Run the checks of ``exercises`` (default: the whole stage) on the program ``source``, with ``files`` beside it
    (default: those that the worked solutions write)."""
    module = ModuleType("submission")
    sys.modules["submission"] = module  # dataclasses look their module up
    exec(compile(source, "<submission>", "exec"), module.__dict__)
    graded, where = Graded(), catalog.load().stage(stage)
    files = handed_in.of_solutions(where) if files is None else files
    for exercise in where.exercises:
        if exercises and exercise.id not in exercises:
            continue
        subject = LiveSubject(module.__dict__, exercise.forbid, device=device(where.device), soc=exercise.soc)
        for check in exercise.checks:
            if any(graded.status.get(need) != "passed" for need in check.needs):
                graded.status[check.id] = "blocked"
                continue
            try:
                check.run(Context(subject, check.id, student, Secret(secret.encode()), files))
            except NotMeasured:
                graded.status[check.id] = "not_measured"
            except CheckFailed as failure:
                graded.status[check.id], graded.named[check.id] = "failed", failure.misconception
                graded.messages[check.id] = failure.message.en
            except SubjectError as error:
                graded.status[check.id], graded.named[check.id] = "error", error.misconception
                graded.messages[check.id] = str(error)
            else:
                graded.status[check.id] = "passed"
                graded.points += check.points
    return graded
