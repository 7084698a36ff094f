"""Write a profile folder as torch_npu.profiler or msprof lays it out, from kernels that were predicted.

What it is not says itself: profiler_metadata.json (emulated.json in a PROF folder) states that it is emulated, by what,
for which chip; the reader hands that on, and no real profile has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .columns import BLOCK
from .find import MSPROF_OUTPUT, OUTPUT
from .kernel import Device, Kernel
from .reading import EMULATED
from .tables import write_kernels, write_statistic, write_steps
from .traces import kernel_trace, write_trace

# One second past the epoch. Viewers count microseconds in floats, which in our days hold a quarter of one: they would
# see kernels that follow each other overlap and drop some. A date that cannot be also says that nothing was measured.
ORIGIN_NS = 10**9
STAMP = "19700101000001"
PROF = f"PROF_000001_{STAMP}000_FLASHDOJO"
CANN = {"block-num": "8.5.0", "block-dim": "8.3.RC1"}
STATEMENT = "predicted by FlashDojo's performance model, not measured on an NPU"


def write_pytorch(
    folder: Path | str,
    runs: Sequence[Kernel],
    *,
    header: str = "block-num",
    level: int = 1,
    host: str = "flashdojo",
    pid: int = 1,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Make ``folder/{host}_{pid}_{time}_ascend_pt`` and return it.

    ``runs``: kernels from ``kernel_run`` or ``training_step``, in any order; start 0 is one second past the epoch.
    ``header``: "block-num", or "block-dim" as until CANN 8.3. ``level``: 0 leaves out tensors and pipes. ``about``:
    plain values for the statement in profiler_metadata.json, for instance the schedule. FileExistsError when the
    folder is there.
    """
    kernels = _checked(runs, header, level)
    root = Path(folder) / f"{host}_{pid}_{STAMP}000_ascend_pt"
    output = root / OUTPUT
    output.mkdir(parents=True)
    table = output / "kernel_details.csv"
    write_kernels(table, kernels, table="kernel_details", header=header, level=level, origin_ns=ORIGIN_NS)
    write_statistic(output / "op_statistic.csv", kernels)
    write_steps(output / "step_trace_time.csv", kernels)
    write_trace(output / "trace_view.json", kernel_trace(kernels, ORIGIN_NS))
    _write_json(root / "profiler_info.json", _info(level, header, kernels))
    _write_json(root / "profiler_metadata.json", _statement(kernels, about))
    _write_device(root / PROF, kernels)
    return root


def write_msprof(
    folder: Path | str,
    runs: Sequence[Kernel],
    *,
    header: str = "block-num",
    level: int = 1,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Make ``folder/PROF_*_FLASHDOJO`` with its mindstudio_profiler_output and return it; as above."""
    kernels = _checked(runs, header, level)
    root = Path(folder) / PROF
    output = root / MSPROF_OUTPUT
    output.mkdir(parents=True)
    summary = output / f"op_summary_{STAMP}.csv"
    write_kernels(summary, kernels, table="op_summary", header=header, level=level, origin_ns=ORIGIN_NS)
    write_statistic(output / f"op_statistic_{STAMP}.csv", kernels)
    write_trace(output / f"msprof_{STAMP}.json", kernel_trace(kernels, ORIGIN_NS))
    _write_json(root / "emulated.json", _statement(kernels, about))
    _write_device(root, kernels)
    return root


def _checked(runs: Sequence[Kernel], header: str, level: int) -> list[Kernel]:
    if header not in BLOCK:
        raise ValueError(f"header must be one of {', '.join(BLOCK)}, not {header!r}")
    if level not in (0, 1):
        raise ValueError(f"level must be 0 or 1, not {level!r}")
    if not runs:
        raise ValueError("a profile needs at least one kernel")
    return sorted(runs, key=lambda kernel: kernel.start_ns or 0)


def _device(kernels: Sequence[Kernel]) -> Device | None:
    return next((kernel.device for kernel in kernels if kernel.device), None)


def _statement(kernels: Sequence[Kernel], about: Mapping[str, Any] | None) -> dict[str, Any]:
    device = _device(kernels)
    return {EMULATED: {"statement": STATEMENT, "device": asdict(device) if device else None, **(about or {})}}


def _info(level: int, header: str, kernels: Sequence[Kernel]) -> dict[str, Any]:
    experimental = {
        "_profiler_level": f"Level{level}",
        "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION" if level else "ACL_AICORE_NONE",
        "_l2_cache": False,
        "_data_simplification": True,
        "_record_op_args": False,
        "_export_type": ["text"],
    }
    common = {"activities": ["NPU"], "record_shapes": True, "profile_memory": False, "with_stack": False}
    end = ORIGIN_NS + max(kernel.end_ns or 0 for kernel in kernels)
    return {
        "config": {"common_config": common, "experimental_config": experimental},
        "start_info": {"freq": 1000.0, "start_monotonic": ORIGIN_NS},
        "end_info": {"collectionTimeEnd": str(end // 1000), "clockMonotonicRaw": str(end)},
        "torch_npu_version": "none (emulated)",
        "cann_version": CANN[header],  # whose column names the tables have
        "rank_id": -1,
    }


def _write_device(root: Path, kernels: Sequence[Kernel]) -> None:
    """info.json of the raw data: cores and clock, which the vendor's analyser reads from there."""
    device = _device(kernels)
    if device is None:
        return
    folder = root / "device_0"
    folder.mkdir(parents=True)
    facts = {"id": 0, "ai_core_num": device.cores, "aiv_num": device.vector_cores, "aic_frequency": f"{device.mhz:g}"}
    _write_json(folder / "info.json.0", {"DeviceInfo": [facts]})


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
