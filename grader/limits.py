"""How long and how large a learner's program may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """``load`` and ``call``: seconds by the clock. ``submission``: seconds of CPU over all workers of one program.
    ``memory``: bytes beyond what the template holds. ``scratch``: bytes a worker may leave in its folder."""

    load: float = 10.0
    call: float = 10.0
    submission: float = 60.0
    memory: int = 2 << 30
    scratch: int = 64 << 20
