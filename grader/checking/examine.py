"""How a check on values runs: draw inputs, call, compare, and only when something is wrong ask what explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.compare import Expected, describe, distance, evidence_of, require_like, require_tensors, right
from grader.checking.diagnose import FAR, Observation, Suspect, Verdict, name_mistake
from grader.subject import Raised, SubjectError
from grader.text import say
from grader.vocabulary import CheckFailed, Context

TRIES = 20


@dataclass(frozen=True)
class Examination:
    """A check on values, ready to run.

    ``call(ctx, case)`` runs the learner's function and returns what it returned, ``expect(case)`` says what each tensor
    must be, ``make(rng, n)`` draws case n (0 is the check; 1 is another geometry, used to name a mistake). ``catch``
    are suspects that a drawn case must tell from the right answer. ``suspects`` may be named. ``otherwise`` is the idea
    that this check isolates: it is named when nothing else fits (or the function raises, or returns another shape) and
    ``control(ctx, case)`` is right, which is a call with the same inputs without what the check adds to them.
    """

    call: Callable[[Context, Any], Any]
    make: Callable[[np.random.Generator, int], Any]
    expect: Callable[[Any], Mapping[str, Expected]]
    suspects: Callable[[], Sequence[Suspect]] = tuple
    catch: Callable[[], Sequence[Suspect]] = tuple
    known: Sequence[Callable[[np.random.Generator, int], Any]] = ()  # cases on which the checks before this one passed
    otherwise: str | None = None
    control: Callable[[Context, Any], bool] | None = None
    shapes: Callable[[Any], Mapping[str, Mapping[tuple[int, ...], str]]] = field(default=lambda case: {})
    dtypes: Mapping[torch.dtype, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # what the function returns; default: the names of ``expect``

    def run(self, ctx: Context) -> None:
        case = self.draw(ctx, 0)
        got = self._returned(ctx, case)
        if self._all_right(case, got):
            return
        verdict = self._name(ctx, case, got)
        if verdict is None and self.otherwise and self._isolated(ctx, case):
            verdict = Verdict(self.otherwise)
        for name, expected in self.expect(case).items():
            if not right(got[name], expected):
                evidence = evidence_of(got[name], expected, case.describe())
                if verdict and verdict.also:
                    evidence["also"] = verdict.also
                ctx.fail(
                    describe(got[name], expected), misconception=verdict.id if verdict else None, evidence=evidence
                )

    def draw(self, ctx: Context, n: int) -> Any:
        """Case ``n``, drawn again until every mistake in ``catch`` is at least 10 tolerances off."""
        catch = self.catch()
        for attempt in range(TRIES):
            case = self.make(ctx.rng(f"{n}/{attempt}"), n)
            if all(self._tells(case, suspect) for suspect in catch):
                return case
        raise RuntimeError(f"{ctx.check}: no draw tells all its mistakes apart; the check needs other shapes")

    def _tells(self, case: Any, suspect: Suspect) -> bool:
        values = suspect.values(case)
        return any(
            distance(values[name], expected.value) >= FAR * expected.tol
            for name, expected in self.expect(case).items()
            if name in values
        )

    def _returned(self, ctx: Context, case: Any) -> dict[str, Tensor]:
        expectations = self.expect(case)
        names = self.names or tuple(expectations)
        try:
            value = self.call(ctx, case)
        except Raised as error:
            if self.otherwise and error.misconception is None and self._isolated(ctx, case):
                error.misconception = self.otherwise
            raise
        got = dict(zip(names, require_tensors(ctx, value, names), strict=True))
        shapes = self.shapes(case)
        for name, expected in expectations.items():
            require_like(
                ctx,
                got[name],
                expected,
                shapes=shapes.get(name),
                dtypes=self.dtypes,
                case=case.describe(),
                otherwise=lambda: self.otherwise if self._isolated(ctx, case) else None,
            )
        return {name: got[name] for name in expectations}

    def _all_right(self, case: Any, got: Mapping[str, Tensor]) -> bool:
        return all(right(got[name], expected) for name, expected in self.expect(case).items())

    def _name(self, ctx: Context, case: Any, got: Mapping[str, Tensor]) -> Verdict | None:
        suspects = self.suspects()
        wrong = [Observation(case, self.expect(case), got)]
        try:
            with torch.random.fork_rng(devices=[]):  # live functions would draw the same dropout again
                torch.manual_seed(int(ctx.rng("again").integers(1 << 30)))
                again = self._returned(ctx, case)
            if any(distance(again[name], got[name]) > FAR * self.expect(case)[name].tol for name in got):
                return Verdict("state-between-calls")  # the same inputs, another answer: no idea about values does that
            other = self.draw(ctx, 1)
            wrong.append(Observation(other, self.expect(other), self._returned(ctx, other)))
        except (SubjectError, CheckFailed):
            return None
        passed = [make(ctx.rng(f"known {i}"), 0) for i, make in enumerate(self.known)]
        return name_mistake(wrong, suspects, [Observation(case, self.expect(case)) for case in passed])

    def _isolated(self, ctx: Context, case: Any) -> bool:
        if self.control is None:
            return False
        try:
            return self.control(ctx, case)
        except (SubjectError, CheckFailed):
            return False


def all_right(value: Any, expectations: Mapping[str, Expected], names: Sequence[str] = ()) -> bool:
    """Whether a returned value is right, without saying why not: for controls."""
    names = tuple(names) or tuple(expectations)
    items = (value,) if len(names) == 1 else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(items) != len(names) or not all(isinstance(item, Tensor) for item in items):
        return False
    got = dict(zip(names, items, strict=True))
    return all(right(got[name], expected) for name, expected in expectations.items())


def only(suspects: Iterable[Suspect], *ids: str) -> list[Suspect]:
    """One suspect for each of ``ids``: the first variant."""
    first: dict[str, Suspect] = {}
    for suspect in suspects:
        first.setdefault(suspect.id, suspect)
    return [first[id] for id in ids]


def repeatable(ctx: Context, call: Callable[[Context, Any], Any], cases: Sequence[Any]) -> None:
    """The first case again, after others: its answer must be the one it had. Whether it is right is not asked."""
    before = call(ctx, cases[0])
    for case in cases[1:]:
        call(ctx, case)
    after = call(ctx, cases[0])
    pairs = list(zip(_tensors(before), _tensors(after), strict=False))
    if len(_tensors(before)) == len(_tensors(after)) and all(distance(a, b) <= 1e-4 * (1 + _size(a)) for a, b in pairs):
        return
    ctx.fail(
        say(
            "同样的输入，中间换过别的输入再算一次，结果就不同了：两次调用之间不应保存任何状态，也不应有随机性。",
            "The same inputs give another result after a call with other inputs: nothing may be kept between calls, "
            "and nothing may be random.",
        ),
        misconception="state-between-calls",
        evidence={
            "case": str(cases[0].describe()),
            "max_error": str(max((distance(a, b) for a, b in pairs), default="-")),
        },
    )


def _tensors(value: Any) -> list[Tensor]:
    return [item for item in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(item, Tensor)]


def _size(value: Tensor) -> float:
    return float(value.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) if value.numel() else 0.0


def unchanged(ctx: Context, changed: Sequence[str], names: Sequence[str]) -> None:
    """The call must have left its inputs as they were. ``names`` are those of the positional ones."""
    if changed:
        spelled = [names[int(label)] if label.isdigit() and int(label) < len(names) else label for label in changed]
        listed = ", ".join(spelled)
        ctx.fail(
            say("函数改动了调用者的输入 {listed}。", "The call changed the caller's {listed}.", listed=listed),
            misconception="input-modified",
            evidence={"changed": spelled},
        )
