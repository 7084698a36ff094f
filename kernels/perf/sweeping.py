"""Many schedules, one after the other: what a tuner does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from kernels.perf.buffers import Refused
from kernels.perf.kernel import Prediction, predict
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc

SLOTS = tuple((so, so, p) for so, p in product((1, 2), (1, 2, 3)))  # places for S, for O and for P


@dataclass(frozen=True)
class Outcome:
    """A schedule with its ``prediction``, or with why it was ``refused``."""

    schedule: Schedule
    prediction: Prediction | None
    refused: Refused | None

    @property
    def microseconds(self) -> float:
        """Infinite when refused, so that outcomes sort."""
        return self.prediction.microseconds if self.prediction else float("inf")


def sweep(
    soc: Soc, shape: Shape, schedules: Iterable[Schedule], progress: Callable[[int], object] | None = None
) -> list[Outcome]:
    """One outcome for each schedule, in their order; ``progress`` is told how many are done after each."""
    outcomes: list[Outcome] = []
    for schedule in schedules:
        try:
            outcomes.append(Outcome(schedule, predict(soc, shape, schedule), None))
        except Refused as refused:
            outcomes.append(Outcome(schedule, None, refused))
        if progress:
            progress(len(outcomes))
    return outcomes


def best(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The fastest that is not refused; None when all are."""
    return min((o for o in outcomes if o.prediction), key=lambda o: o.microseconds, default=None)


def grid(
    base: Schedule | None = None,
    *,
    block_q: Iterable[int] = tuple(range(32, 193, 16)),
    block_kv: Iterable[int] = (64, 96, 128, 192, 256, 384, 512),
    preload: Iterable[int] = (0, 1, 2, 3),
    slots: Iterable[tuple[int, int, int]] = SLOTS,
) -> Iterator[Schedule]:
    """``base`` with every tile, preload and number of places for S, O and P: 1,848 schedules as it stands."""
    start = base or Schedule()
    for m, n, ahead, (s, o, p) in product(block_q, block_kv, preload, slots):
        yield replace(start, block_q=m, block_kv=n, preload=ahead, s_slots=s, o_slots=o, p_slots=p)
