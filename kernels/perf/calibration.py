"""The model against every published measurement: predicted, measured, and which rows the constants were fitted on.

``fa_calibration.csv`` has the rows with their sources. Its column ``part`` is "fit" for every other row of a group, the
others are the holdout; ``python -m benchmarks.calibration --refit`` fits on the first and shows the second. Rows of the
backward stand in the file and are not predicted: there are two of them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import ClassVar

from kernels.perf.architecture import Architecture
from kernels.perf.kernel import Prediction, predict
from kernels.perf.named import schedule_for
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc, find_soc

TABLE = Path(__file__).with_name("fa_calibration.csv")
SOC_OF = {  # how the measurements name their machines; one is in no platform file, only in a vendor's profile
    "910B2": find_soc("910B2"),
    "910B3": find_soc("910B3"),
    "A2_20c1650": replace(find_soc("910B3"), name="A2_20c1650", mhz=1650.0),
    "A3die_24c1800": find_soc("910_9381"),
    "950_32c": find_soc("950DT_9581"),
    "950_28c": find_soc("950DT_9571"),
}
# What a host adds when it times a loop, set by eye: these rows say little about the chip.
LOOP_US, HARNESS_US = 35.0, 9.0
FLOOR_US = {"x86": 48.0, "aarch64": 72.0}


class MeasuredShape(Shape):
    """A shape of any kernel: TileLang's takes head dims that upstream's operator refuses."""

    HEAD_DIMS: ClassVar[tuple[int, ...]] = (64, 128, 256, 512)


@dataclass(frozen=True)
class Row:
    """One measurement; ``error`` is predicted / measured - 1, ``device``: timed by the device, not from the host."""

    group: str
    part: str  # "fit" or "holdout"
    soc: Soc
    kernel: str
    shape: Shape
    schedule: Schedule
    device: bool
    measured: float  # microseconds
    predicted: float
    source: str
    prediction: Prediction

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def calibrate(
    constants: Mapping[str, Architecture] | None = None, *, arch: str | None = None, part: str | None = None
) -> list[Row]:
    """The forward rows of the table, predicted; ``constants`` (by architecture) in place of the shipped ones.

    ``arch`` and ``part`` leave out the others.
    """
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [
            _row(line, constants or {})
            for line in csv.DictReader(file)
            if line["direction"] == "fwd" and arch in (None, SOC_OF[line["soc"]].arch) and part in (None, line["part"])
        ]


def _row(line: Mapping[str, str], constants: Mapping[str, Architecture]) -> Row:
    soc = SOC_OF[line["soc"]]
    size = ",".join(line[key] for key in ("B", "N_q", "N_kv", "S_q", "S_kv", "D"))
    shape = MeasuredShape.parse(size, dtype=line["dtype"], mask=line["mask"])
    schedule = schedule_for(line["schedule"], soc, shape)
    prediction = predict(soc, shape, schedule, architecture=constants.get(soc.arch))
    return Row(
        group=line["group"],
        part=line["part"],
        soc=soc,
        kernel=line["kernel"],
        shape=shape,
        schedule=schedule,
        device=line["timing"] in ("device", "device task", "task", "msprof op"),
        measured=float(line["measured_us"]),
        predicted=_as_timed(prediction.microseconds, line),
        source=line["source"],
        prediction=prediction,
    )


def _as_timed(microseconds: float, line: Mapping[str, str]) -> float:
    """What the clock of the measurement shows when the kernel takes this long."""
    if line["group"].startswith("A2 torch_npu"):
        host = "aarch64" if "aarch64" in line["source"] else "x86"
        return max(FLOOR_US[host], microseconds + LOOP_US)
    return microseconds + (HARNESS_US if line["timing"] == "bench harness" else 0.0)


def median_error(rows: Sequence[Row]) -> float:
    return median(abs(row.error) for row in rows)


def worst_error(rows: Sequence[Row]) -> float:
    return max((row.error for row in rows), key=abs)


# Counters of the vendor's profiler for the A2 row of 407.1 us (Ascend/msprof-analyze test data): pipe -> busy ratio.
A2_COUNTERS: Mapping[str, float] = {
    "CUBE": 0.357, "MTE1": 0.300, "MTE2": 0.468, "FIXPIPE": 0.584, "VECTOR": 0.634, "VMTE2": 0.307, "MTE3": 0.195,
}  # fmt: skip
A2_CORE_MICROSECONDS = 361.1
