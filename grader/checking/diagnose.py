"""Which wrong idea gives exactly these wrong values?

Every suspect is a wrong idea carried out on the inputs of the check. It is named only when its values lie on what the
learner's program returned, on at least two cases of different geometry, while the right values and every other suspect
lie far away; and it must be right wherever the program is known to be right. A wrong guess costs a learner more than
none, so anything less gets no name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from grader.checking.compare import Expected, distance, largest

NEAR = 4.0  # tolerances within which a suspect explains a value: its own rounding may differ from the learner's
FAR = 10.0  # tolerances beyond which something does not explain it; how much of an error a suspect has to explain


@dataclass(frozen=True)
class Suspect:
    """A wrong idea. ``values(case)`` gives the tensors it leads to, by name; ``also`` is the second idea of a pair."""

    id: str
    values: Callable[[Any], Mapping[str, Tensor]]
    also: str | None = None
    loose: float = 1.0  # widens NEAR for ideas whose own rounding is coarser, such as much larger logits


@dataclass(frozen=True)
class Observation:
    """What the program returned for one case (nothing: it is known to be right there), and what it should have."""

    case: Any
    expected: Mapping[str, Expected]
    got: Mapping[str, Tensor] = field(default_factory=dict)

    def seen(self) -> Mapping[str, Tensor]:
        return self.got or {name: expected.value for name, expected in self.expected.items()}


@dataclass(frozen=True)
class Verdict:
    id: str
    also: str | None = None


def name_mistake(
    wrong: Sequence[Observation], suspects: Iterable[Suspect], known: Sequence[Observation] = ()
) -> Verdict | None:
    """The one idea that explains every ``wrong`` observation and what is ``known`` to be right, or None.

    Pairs of ideas are tried only when no single one fits.
    """
    if len(wrong) < 2 or not all(_oracle_is_far(seen) for seen in wrong):
        return None
    pool = list(suspects)
    for group in ([s for s in pool if s.also is None], [s for s in pool if s.also is not None]):
        fits, possible = group, group  # those that explain everything so far; those not ruled out
        for seen in (*wrong, *known):
            judged = [(suspect, *_judge(suspect, seen)) for suspect in possible]
            fitting = {id(suspect) for suspect, fit, _ in judged if fit}
            fits = [suspect for suspect in fits if id(suspect) in fitting]
            possible = [suspect for suspect, _, may in judged if may]
        if fits:
            named = {suspect.id for suspect in possible}
            return Verdict(fits[0].id, fits[0].also) if len(named) == 1 else None
    return None


def _oracle_is_far(seen: Observation) -> bool:
    return any(
        distance(seen.got[name], seen.expected[name].value) >= FAR * seen.expected[name].tol for name in seen.got
    )


def _judge(suspect: Suspect, seen: Observation) -> tuple[bool, bool]:
    """Whether the suspect explains what was seen, and whether it may do so when rounding is generous."""
    try:
        values = suspect.values(seen.case)
    except (RuntimeError, ArithmeticError, IndexError, ValueError):
        return False, False  # the idea cannot be carried out on these shapes
    fits = may = True
    for name, got in seen.seen().items():
        if name not in values:
            return False, False
        expected = seen.expected[name]
        size = largest(_finite(values[name]).abs()) / max(largest(_finite(expected.value).abs()), 1e-30)
        unit = expected.tol * max(1.0, size)
        off, wrong = distance(got, values[name]), distance(got, expected.value)
        fits = fits and off <= NEAR * suspect.loose * unit and off <= max(wrong / FAR, NEAR * expected.tol)
        may = may and off < max(FAR, 2 * NEAR * suspect.loose) * unit
    return fits, may


def _finite(value: Tensor) -> Tensor:
    return value.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
