"""Which wrong idea gives exactly these wrong values?

Every suspect is a wrong idea carried out on the inputs of the check. It is named only when its values lie on what the
learner's program returned, on at least two cases of different geometry, while the right values and every other suspect lie far
away. A wrong guess costs a learner more than none, so anything less gets no name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from grader.compare import Expected, distance, largest

NEAR = 4.0  # tolerances within which a suspect explains a value: its own rounding may differ from the learner's
FAR = 10.0  # how many times farther off everything else must lie


@dataclass(frozen=True)
class Suspect:
    """A wrong idea. ``values(case)`` gives the tensors it leads to, by name; ``also`` is the second idea of a pair."""

    id: str
    values: Callable[[Any], Mapping[str, Tensor]]
    also: str | None = None
    loose: float = 1.0  # widens NEAR for ideas whose own rounding is coarser, such as much larger logits


@dataclass(frozen=True)
class Observation:
    """What the program returned for one case, and what it should have."""

    case: Any
    got: Mapping[str, Tensor]
    expected: Mapping[str, Expected]


@dataclass(frozen=True)
class Verdict:
    id: str
    also: str | None = None


def name_mistake(observations: Sequence[Observation], suspects: Iterable[Suspect]) -> Verdict | None:
    """The one idea that explains every observation, or None. Pairs are tried only when no single idea fits."""
    if len(observations) < 2 or not all(_oracle_is_far(seen) for seen in observations):
        return None
    pool = list(suspects)
    for group in ([s for s in pool if s.also is None], [s for s in pool if s.also is not None]):
        close = group  # suspects not yet ruled out
        fits = group  # suspects that explain everything so far
        for seen in observations:
            offsets = {id(suspect): _offset(suspect, seen) for suspect in close}
            fits = [s for s in fits if offsets[id(s)] <= 1]
            close = [s for s in close if offsets[id(s)] < FAR]
        if fits:
            named = {s.id for s in close}
            return Verdict(fits[0].id, fits[0].also) if len(named) == 1 else None
    return None


def _oracle_is_far(seen: Observation) -> bool:
    return any(distance(seen.got[name], seen.expected[name].value) >= FAR * seen.expected[name].tol for name in seen.got)


def _offset(suspect: Suspect, seen: Observation) -> float:
    """The distance of the suspect's values from the returned ones, in radii within which it explains them."""
    values = suspect.values(seen.case)
    worst = 0.0
    for name, got in seen.got.items():
        if name not in values:
            return math.inf
        expected = seen.expected[name]
        finite = values[name].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        size = largest(finite.double().abs()) / max(largest(_finite(expected.value).abs()), 1e-30)
        radius = NEAR * suspect.loose * expected.tol * max(1.0, size)
        worst = max(worst, distance(got, values[name]) / radius)
    return worst


def _finite(value: Tensor) -> Tensor:
    return value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
