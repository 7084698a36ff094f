"""The kernels of this machine's own NPU, for the checks without points that compare a learner's values with them."""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING

from grader.npu import problem_of
from grader.text import Text, say

if TYPE_CHECKING:
    from kernels.ascend.backend import Backend


def npu_here() -> str | None:
    """The chip of this machine's NPU, None without one that works. Costs nothing where torch_npu is not installed."""
    if importlib.util.find_spec("torch_npu") is None:
        return None
    backend, chip = kernels_here()
    return chip.en if backend is not None else None


@functools.cache
def kernels_here() -> tuple[Backend | None, Text]:
    """The real NPU's forward and backward with the chip's name, or None and why there is none."""
    from kernels.machine import detect

    found = detect()
    if found.is_real:
        try:
            from kernels.ascend.backend import backend_for  # brings the NPU into this process

            return backend_for(found), Text(found.soc or "", found.soc or "")
        except Exception as error:  # whatever a driver, a library or torch_npu raises
            problem: Text | None = Text(*[f"{type(error).__name__}: {error}"] * 2)
    else:
        problem = problem_of(found.report())
    if problem is not None:
        return None, say(
            "没有和真实算子比较：{problem}", "not compared with the real kernel: {problem}", problem=problem
        )
    return None, say(
        "这台机器上没有昇腾 NPU，没有和真实算子比较。",
        "no Ascend NPU on this machine, so nothing was compared with the real kernel.",
    )
