"""Diagnoses as common mistakes give them: the word for one row of a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import profile_kinds as kinds
from .profile_kinds import PIPES
from .tables import Row

Word = Callable[[Row], Any]


def _rules(
    *,
    columns: Mapping[str, str] = PIPES,
    full: float = kinds.FULL,
    launch: bool = True,
    cores: bool = True,
    pipes_first: bool = False,
    aicore_only: bool = False,
) -> Word:
    """The rules with something left out, or in another order."""

    def word(row: Row) -> str:
        times = [row[time] for time in ("aicore_us", "aiv_us") if row[time] is not None]
        ratios = {column: row[column] for column in columns if row[column] is not None}
        if not times or not ratios:
            return "unknown"
        if aicore_only:
            times = times[:1]
        busiest = max(ratios, key=lambda column: ratios[column])
        pipe = columns[busiest] if ratios[busiest] >= full else None
        if pipes_first and pipe:
            return pipe
        if launch and max(times) < kinds.LAUNCH * row["duration_us"]:
            return "launch"
        share = kinds.working_share(row)
        if cores and share is not None and share < kinds.CORES:
            return "cores"
        return pipe or "waiting"

    return word


def _occupied(row: Row) -> str:
    """cube_utilization is taken for the Cube's own use."""
    return "cube" if (row["cube_utilization"] or 0) >= 80 else kinds.answer(row)


def _idle_cube(row: Row) -> str:
    """A low mac is all that is seen: whatever the other pipes say, the Cube is blamed."""
    return "cube" if (row["mac"] or 0) < 0.6 else kinds.answer(row)


def _cores_by_utilisation(row: Row) -> str:
    """Cores are called idle whenever cube_utilization is low, which it also is when a kernel is short."""
    if row["cube_utilization"] and row["cube_utilization"] < 50:
        return "cores"
    return kinds.answer(row)


def _quotient_forgotten(row: Row) -> str:
    """Likewise, after the rule about launching."""
    return kinds.answer(row) if kinds.answer(row) in ("launch", "unknown") else _cores_by_utilisation(row)


def _none_is_zero(row: Row) -> str:
    """Without counters the core time is taken for 0."""
    return "launch" if kinds.answer(row) == "unknown" else kinds.answer(row)


def _without(*columns: str) -> dict[str, str]:
    return {column: word for column, word in PIPES.items() if column not in columns}


IDEAS: list[tuple[str, Word]] = [
    ("diagnose-occupancy", _occupied),
    ("diagnose-idle-cube", _idle_cube),
    ("diagnose-scalar", _rules(columns=PIPES | {"scalar": "scalar"})),
    ("diagnose-scalar", _rules(columns=PIPES | {"scalar": "scalar", "aiv_scalar": "aiv_scalar"})),
    ("diagnose-scalar", _rules(columns=PIPES | {"aiv_scalar": "aiv_scalar"})),
    ("diagnose-scalar", _rules(columns=PIPES | {"aiv_scalar": "waiting"})),
    ("diagnose-core-time", _rules(aicore_only=True)),
    ("diagnose-none", _none_is_zero),
    ("diagnose-vendor-word", _rules(columns=PIPES | {"mte2": "cube"})),
    ("diagnose-vendor-word", _rules(columns=PIPES | {"mte2": "mac"})),
    ("diagnose-fixpipe-unseen", _rules(columns=_without("fixpipe"))),
    ("diagnose-fixpipe-unseen", _rules(columns=_without("fixpipe", "mte1", "mte3", "aiv_mte2"))),
    ("diagnose-vector-unseen", _rules(columns=_without("vec", "aiv_mte2", "mte3"))),
    ("diagnose-always-a-pipe", _rules(full=0.0)),
    ("diagnose-always-a-pipe", _rules(full=0.3)),
    ("diagnose-always-a-pipe", _rules(full=0.5)),
    ("diagnose-launch-missed", _rules(launch=False)),
    ("diagnose-cores-missed", _rules(cores=False)),
    ("diagnose-cores-missed", _rules(cores=False, launch=False)),
    ("diagnose-order", _rules(pipes_first=True)),
    ("diagnose-cores-by-utilisation", _cores_by_utilisation),
    ("diagnose-cores-by-utilisation", _quotient_forgotten),
    (
        "diagnose-column-name",
        lambda row: kinds.busiest(row) if kinds.answer(row) in PIPES.values() else kinds.answer(row),
    ),
]
