"""How long and how large a learner's program may be."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from grader.wall import procfs

LOOK_EVERY = 0.1  # seconds; a look costs as much as a small call


@dataclass(frozen=True)
class Limits:
    """``load`` and ``call``: seconds by the clock. ``submission``: seconds of CPU over all workers of one program.
    ``memory``: bytes beyond what the template holds. ``scratch``: bytes a worker may leave in its folder."""

    load: float = 10.0
    call: float = 10.0
    submission: float = 60.0
    memory: int = 2 << 30
    scratch: int = 16 << 20


@dataclass
class Budget:
    """CPU time of one submission, shared by its workers: those that ended are booked, those that live are looked at."""

    seconds: float
    spent: float = 0.0
    living: set[int] = field(default_factory=set)  # process ids
    _looked: tuple[float, float] = (-1.0, 0.0)  # when the living were looked at last, and what they had used

    @property
    def left(self) -> float:
        now = time.monotonic()
        if now - self._looked[0] > LOOK_EVERY:
            self._looked = now, sum(procfs.cpu_seconds(pid) for pid in self.living)
        return self.seconds - self.spent - self._looked[1]

    def opened(self, pid: int) -> None:
        self.living.add(pid)

    def closed(self, pid: int, used: float) -> None:
        self.living.discard(pid)
        self.spent += used
        self._looked = (-1.0, 0.0)
