"""Profiles of Ascend NPUs: write them from predictions, read them, say how busy the chip was.

The formats are those of torch_npu.profiler (``*_ascend_pt``) and msprof (``PROF_*``). The reader takes real profiles
as well as ours; ours say of themselves that they are emulated.
"""

from .find import find
from .kernel import Device, Kernel, Note, Profile, Step
from .problems import PROBLEMS, BadProfile
from .reading import read, stream
from .runs import kernel_run
from .traces import core_trace, kernel_trace, trace_times, write_trace
from .training import Model, training_step
from .utilisation import MEANINGS, Share, shares, tensor_bytes, utilisation
from .writing import write_msprof, write_pytorch

__all__ = [
    "MEANINGS",
    "PROBLEMS",
    "BadProfile",
    "Device",
    "Kernel",
    "Model",
    "Note",
    "Profile",
    "Share",
    "Step",
    "core_trace",
    "find",
    "kernel_run",
    "kernel_trace",
    "read",
    "shares",
    "stream",
    "tensor_bytes",
    "trace_times",
    "training_step",
    "utilisation",
    "write_msprof",
    "write_pytorch",
    "write_trace",
]
