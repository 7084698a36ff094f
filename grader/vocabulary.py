"""The words in which a stage's ``checks.py`` is written.

A check is a function of a :class:`Context`. It returns (passed) or calls :meth:`Context.fail` (failed); what learner
code does wrong on the way (exceptions, time-outs, crashes) travels as :class:`grader.subject.SubjectError` and the
engine turns it into a status. A check never sees points or files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from grader.artifact import Artifact
from grader.inputs import Secret, generator
from grader.subject import Subject, Where
from grader.text import Text, say

if TYPE_CHECKING:
    from kernels.ascend.backend import Backend

__all__ = ["Check", "CheckFailed", "Context", "NotMeasured", "Text", "check", "say"]


class CheckFailed(Exception):
    """Raised by :meth:`Context.fail`; carries what the learner is told."""

    def __init__(self, message: Text, misconception: str | None, evidence: Mapping[str, Any], where: Where | None):
        super().__init__(message.en)
        self.message, self.misconception, self.evidence, self.where = message, misconception, dict(evidence), where


class NotMeasured(Exception):
    """Ends a check that this machine cannot make; only for checks without points. ``message`` says why."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


@dataclass
class Context:
    """What one run of one check works with."""

    subject: Subject
    check: str  # the running check's id
    student: str = ""
    secret: Secret = field(default_factory=Secret)
    files: Mapping[str, bytes] = field(default_factory=dict)  # what was handed in beside the program, by path
    refused: Mapping[str, Text] = field(default_factory=dict)  # what lies there and does not count, and why
    remark: tuple[Text, Mapping[str, Any]] | None = None  # see :meth:`say_when_passed`

    def rng(self, case: str | int = 0) -> np.random.Generator:
        """Fresh, reproducible random numbers for one case of this check."""
        return generator(self.secret, self.student, self.check, case)

    def artifact(self, name: str) -> Artifact:
        """The file or folder ``name`` that the exercise asks for. The check fails when it was not handed in."""
        if name in self.refused:
            self.fail(self.refused[name], misconception="artifact-unreadable")
        return Artifact.among(self.files, name) or self.fail(
            say(
                "没有找到 {name}。它要和笔记本放在同一个文件夹里；运行写出它的那一格，再交上整个文件夹。",
                "{name} is not there. It belongs in the notebook's own folder: run the cell that writes it, and hand "
                "in the whole folder.",
                name=name,
            ),
            misconception="artifact-missing",
        )

    def say_when_passed(self, message: Text, evidence: Mapping[str, Any] | None = None) -> None:
        """What is worth knowing though nothing is wrong, such as how fast the answer is."""
        self.remark = message, evidence or {}

    def not_measured(self, message: Text) -> NoReturn:
        """End the check as not measured, which only a check without points may be."""
        raise NotMeasured(message)

    def hardware(self) -> Backend:
        """The kernels of this machine's NPU. Without a real one the check ends as not measured."""
        from grader.hardware import kernels_here  # looks for an NPU, which few checks need

        backend, reason = kernels_here()
        return backend if backend is not None else self.not_measured(reason)

    def fail(
        self,
        message: Text,
        *,
        misconception: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        where: Where | None = None,
    ) -> NoReturn:
        """End the check as failed. ``misconception`` only when the idea that is wrong is certain. ``evidence`` is JSON
        data; the views know the keys ``max_error``, ``tolerance``, ``index``, ``expected``, ``got``, ``shape``,
        ``case`` (a short description of the inputs) and ``tile_errors`` {"block_q", "block_kv", "errors": [[...]]}."""
        raise CheckFailed(message, misconception, evidence or {}, where)


@dataclass(frozen=True)
class Check:
    """One named check. ``points`` of an exercise's checks add up to the exercise's points."""

    id: str  # "s2-forward.tails": the exercise's id, a dot, a name
    points: float
    concept: str  # key of [concepts] in stage.toml
    run: Callable[[Context], None]
    needs: tuple[str, ...] = ()  # checks of the same exercise; when one failed, this one is "blocked"
    public: bool = True  # public checks also run in the notebook

    @property
    def exercise(self) -> str:
        return self.id.split(".")[0]


def check(
    id: str, *, points: float, concept: str, needs: tuple[str, ...] = (), public: bool = True
) -> Callable[[Callable[[Context], None]], Check]:
    """Decorator: ``@check("s2-forward.tails", points=2, concept="tail-tiles", needs=("s2-forward.values",))``.

    The module-level name becomes a :class:`Check`; the catalog collects them in the order of definition.
    """

    def wrap(function: Callable[[Context], None]) -> Check:
        return Check(id=id, points=points, concept=concept, run=function, needs=needs, public=public)

    return wrap
