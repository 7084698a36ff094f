"""What a machine has for the NPU part of the course. Importing it changes nothing: no device is installed."""

from kernels.machine.cann import find_cann
from kernels.machine.situation import FAULTS, Situation, detect, kind_of, release, versions_match

__all__ = ["FAULTS", "Situation", "detect", "find_cann", "kind_of", "release", "versions_match"]
