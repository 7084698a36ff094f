"""What a machine has for the NPU part of the course. Importing it changes nothing: no device is installed."""

from kernels.machine.cann import find_cann
from kernels.machine.chips import kind_of
from kernels.machine.packages import emulated, is_there
from kernels.machine.situation import (
    FAULTS,
    NpuError,
    Situation,
    broken_operators,
    detect,
    release,
    unimportable,
    versions_match,
)

__all__ = [
    "FAULTS",
    "NpuError",
    "Situation",
    "broken_operators",
    "detect",
    "emulated",
    "find_cann",
    "is_there",
    "kind_of",
    "release",
    "unimportable",
    "versions_match",
]
