"""The module torch_npu: the device and the attention of the 910B."""

from __future__ import annotations

import sys
from typing import Any

import torch

from kernels.ascend import fusion
from kernels.ascend.packages import modules

ABSENT = {"profiler": "there is no hardware to profile. torch.profiler measures the CPU"}


def install() -> None:
    fusion.register()
    npu: Any = torch.npu  # type: ignore[attr-defined]
    version = torch.__version__.partition("+")[0] + "+emulated"  # releases of the two go in pairs
    modules.add("torch_npu", __doc__, {"npu": npu, **fusion.TORCH_NPU}, version, ABSENT)
    sys.modules["torch_npu.npu"] = npu
