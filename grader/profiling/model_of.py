"""What only the model knows of a profile that it wrote: the schedule, and with it buffers and one core's pipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernels.perf import Prediction, Schedule, Shape, find_soc, predict


def about(found: Prediction, schedule_name: str) -> dict[str, Any]:
    """What the writer puts into the profile, so that :func:`model_of` can ask the model again."""
    return {
        "soc": found.soc.name,
        "shape": asdict(found.shape),
        "schedule": found.schedule.to_json(),
        "schedule_name": schedule_name,
    }


def model_of(statement: Mapping[str, Any] | None) -> Prediction | None:
    """The prediction behind a profile; None for one that was measured, or whose statement is none of ours."""
    if statement is None:
        return None
    try:
        soc, shape = find_soc(statement["soc"]), Shape(**statement["shape"])
        return predict(soc, shape, Schedule.from_json(statement["schedule"]))
    except (KeyError, TypeError, AttributeError, ValueError):  # edited by hand, or by a later version of the course
        return None
