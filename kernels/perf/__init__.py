"""A performance model of FlashAttention on Ascend that runs anywhere: pure Python, and no device is installed."""

from kernels.perf import analytic
from kernels.perf.accuracy import CAVEATS, Band
from kernels.perf.architecture import ARCHITECTURES, Architecture
from kernels.perf.buffers import Buffer, Deadlock, NoPath, NoVectorCode, Overflow, Refused, buffer_plan, refusals
from kernels.perf.calibration import Row, calibrate
from kernels.perf.kernel import Prediction, predict, timeline
from kernels.perf.named import SCHEDULES, schedule_for
from kernels.perf.pipeline import PIPES, Event
from kernels.perf.schedule import BadSchedule, Schedule
from kernels.perf.shape import BadShape, Shape
from kernels.perf.socs import SOCS, Soc, UnknownSoc, find_soc
from kernels.perf.sweeping import Outcome, best, grid, sweep

__all__ = [
    "ARCHITECTURES",
    "CAVEATS",
    "PIPES",
    "SCHEDULES",
    "SOCS",
    "Architecture",
    "BadSchedule",
    "BadShape",
    "Band",
    "Buffer",
    "Deadlock",
    "Event",
    "NoPath",
    "NoVectorCode",
    "Outcome",
    "Overflow",
    "Prediction",
    "Refused",
    "Row",
    "Schedule",
    "Shape",
    "Soc",
    "UnknownSoc",
    "analytic",
    "best",
    "buffer_plan",
    "calibrate",
    "find_soc",
    "grid",
    "predict",
    "refusals",
    "schedule_for",
    "sweep",
    "timeline",
]
