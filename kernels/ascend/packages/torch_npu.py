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
    names = {"npu": npu, "_autoload": _autoload, **fusion.TORCH_NPU}
    modules.add("torch_npu", __doc__, names, version, ABSENT)
    sys.modules["torch_npu.npu"] = npu


def _autoload() -> None:
    """What torch calls by itself where the real torch_npu is installed as well: there is nothing left to do."""
