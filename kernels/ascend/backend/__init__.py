"""Attention on what this machine has: one small class per kernel, all with the same forward and backward."""

from __future__ import annotations

import importlib

from kernels.ascend.backend.ascend910b import Ascend910B
from kernels.ascend.backend.ascend950 import Ascend950
from kernels.ascend.backend.base import Backend
from kernels.ascend.backend.emulated import Emulated
from kernels.ascend.backend.reference import CpuReference
from kernels.machine import FAULTS, Situation, kind_of

__all__ = ["Ascend910B", "Ascend950", "Backend", "CpuReference", "Emulated", "backend_for"]


def backend_for(situation: Situation) -> Backend:
    """The backend that the situation has. Raises RuntimeError, with what to do, when something is in the way.

    Without an NPU it is the CPU; emulating a chip that has no FlashAttention operator is refused, as that chip would.
    """
    if situation.problem:
        raise RuntimeError(situation.problem)
    if situation.kind == "none":
        return CpuReference()
    kind = kind_of(situation.soc or "")
    if kind == "950":
        real: Backend = Ascend950(importlib.import_module("cann_ops_transformer"))
    elif kind == "910B":
        real = Ascend910B(importlib.import_module("torch_npu"))
    else:
        raise RuntimeError(FAULTS["soc-unsupported"].format(soc=situation.soc))
    return Emulated(real) if situation.kind == "emulated" else real
