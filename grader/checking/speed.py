"""Is it faster than the start, and by how much? A ratio with a confidence interval, measured until it is certain.

Both programs run behind the same wall, in turn and on the same fresh inputs, and what is compared is the CPU time of
each call as the system counts it: other work on the machine, a turned clock and a thread change nothing about that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grader.subject import Outcome, Subject

FEWEST = 8  # pairs before anything is said: with fewer there is no interval of that confidence
MOST = 30  # pairs after which the estimate alone decides
LEVEL = 0.99  # of the confidence interval
ATTEMPTS = 2  # measurements that have to fail before anybody is failed


@dataclass(frozen=True)
class Ratio:
    """How many times faster: the median over pairs, and the interval that holds it with confidence :data:`LEVEL`."""

    estimate: float
    low: float
    high: float
    pairs: int

    def to_json(self) -> dict[str, float]:
        return {"ratio": round(self.estimate, 2), "low": round(self.low, 2), "high": round(self.high, 2)}


def ratio_of(ratios: list[float]) -> Ratio:
    """The interval between order statistics: for a median it needs no distribution (binomial(n, 1/2))."""
    ordered, n = sorted(ratios), len(ratios)
    tail, rank = 0.0, 0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 1 - LEVEL:
            break
        rank += 1
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (0.0, math.inf)
    return Ratio(statistics.median(ordered), low, high, n)


def measure(
    theirs: Subject,
    start: Subject,
    names: tuple[str, str],
    draw: Callable[[int], tuple[Any, ...]],
    inspect: Callable[[int, tuple[Any, ...], Outcome, Outcome], None],
    wanted: float,
) -> Ratio:
    """Time ``names`` (the learner's function, the start's) on the inputs ``draw(i)``, i = 0, 1, ..., until the interval
    lies on one side of ``wanted`` or :data:`MOST` pairs are done; what comes out below it is measured again from the
    beginning, and the better one returned. ``inspect(i, inputs, theirs, start's)`` judges every one of the learner's
    values, and raises."""
    best = None
    for attempt in range(ATTEMPTS):
        found = _measured(theirs, start, names, draw, inspect, wanted, attempt * (MOST + 1))
        if best is None or found.estimate > best.estimate:
            best = found
        if best.estimate >= wanted:
            break
    assert best is not None
    return best


def _measured(
    theirs: Subject,
    start: Subject,
    names: tuple[str, str],
    draw: Callable[[int], tuple[Any, ...]],
    inspect: Callable[[int, tuple[Any, ...], Outcome, Outcome], None],
    wanted: float,
    first: int,
) -> Ratio:
    """The first pair warms up and does not count."""
    ratios: list[float] = []
    for number in range(first, first + MOST + 1):
        inputs = draw(number)
        outcomes = {}
        for subject in (theirs, start) if number % 2 else (start, theirs):
            outcomes[subject is theirs] = subject.timed(names[subject is not theirs], *inputs)
        inspect(number, inputs, outcomes[True], outcomes[False])
        if number > first:
            ratios.append(outcomes[False].seconds / max(outcomes[True].seconds, 1e-9))
        if len(ratios) >= FEWEST:
            found = ratio_of(ratios)
            if found.low >= wanted or found.high < wanted:
                break
    return ratio_of(ratios)


@contextmanager
def started(subject: Subject, source: str) -> Iterator[Subject]:
    """The program to compare with, under the same conditions as ``subject``."""
    other = subject.beside(source)
    try:
        yield other
    finally:
        close = getattr(other, "close", None)
        if close:
            close()
