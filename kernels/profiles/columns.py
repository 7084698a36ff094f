"""The columns of op_summary_*.csv and kernel_details.csv: one key each, and the names that the versions gave them.

Sources: header lists of msprof's own analysis code (Ascend/msprof, op_summary and the PipeUtilization metric of chip
V4 = 910B/A3 and V6 = 950) and torch_npu's renaming of them. The order of the 950's columns is taken from that code; no
published file of a 950 was found.
"""

from __future__ import annotations

from collections.abc import Iterable

# key -> (name in op_summary, name in kernel_details) where the two differ
RENAMED = {
    "name": ("Op Name", "Name"),
    "type": ("OP Type", "Type"),
    "core": ("Task Type", "Accelerator Core"),
    "start": ("Task Start Time(us)", "Start Time(us)"),
    "duration": ("Task Duration(us)", "Duration(us)"),
    "wait": ("Task Wait Time(us)", "Wait Time(us)"),
}
NAMES = {
    "step": "Step Id",
    "device_id": "Device_id",
    "model": "Model ID",
    "task": "Task ID",
    "stream": "Stream ID",
    "state": "OP State",
    "hf32": "HF32 Eligible",
    "input_shapes": "Input Shapes",
    "input_dtypes": "Input Data Types",
    "input_formats": "Input Formats",
    "output_shapes": "Output Shapes",
    "output_dtypes": "Output Data Types",
    "output_formats": "Output Formats",
    "context": "Context ID",
    "aicore": "aicore_time(us)",
    "aiv": "aiv_time(us)",
    "cube_utilization": "cube_utilization(%)",
}
BLOCK = {  # CANN renamed the two after 8.3
    "block-num": {"block_num": "Block Num", "mix_block_num": "Mix Block Num"},
    "block-dim": {"block_num": "Block Dim", "mix_block_num": "Mix Block Dim"},
}
# the first generation (one fused core, no AIC/AIV) has no prefix; some exports drop the unit
ALIASES = {
    "aicore": ("aicore_time", "aic_time(us)"),
    "aic_total_cycles": ("total_cycles",),
    "aiv": ("aiv_time",),
    "aic_mac_ratio": ("mac_ratio",),
    "aic_scalar_ratio": ("scalar_ratio",),
    "aic_mte1_ratio": ("mte1_ratio",),
    "aic_mte2_ratio": ("mte2_ratio",),
    "aiv_vec_ratio": ("vec_ratio",),
    "aiv_mte3_ratio": ("mte3_ratio",),
    "device_id": ("Device Id", "Device ID"),
    "cube_utilization": ("cube_utilization",),
}
IDENTITY = ("device_id", "model", "task", "stream", "name", "type", "state", "core")
TIMES = ("start", "duration", "wait")
TENSORS = tuple(f"{end}_{what}" for end in ("input", "output") for what in ("shapes", "dtypes", "formats"))
NEEDED = ("name", "type", "duration")


def pipe_columns(kind: str, pipes: Iterable[str]) -> list[str]:
    return [key for pipe in pipes for key in (f"{kind}_{pipe}_time", f"{kind}_{pipe}_ratio")]


def aic_pipes(arch: str | None) -> tuple[str, ...]:
    """Pipes of a cube core in the order of their columns; the 950 counts MTE3 as well (L1 to GM)."""
    return ("mac", "scalar", "mte1", "mte2", *(("mte3",) if arch == "3510" else ()), "fixpipe")


def columns(level: int, arch: str | None, steps: bool) -> list[str]:
    """Keys in the order of a file. Level 0 has neither tensors nor pipes."""
    keys = [*(("step",) if steps else ()), *IDENTITY, *TIMES, "block_num", "mix_block_num"]
    if level == 0:
        return keys
    keys += ["hf32", *TENSORS, "context"]
    keys += ["aicore", "aic_total_cycles", *pipe_columns("aic", aic_pipes(arch)), "aic_icache_miss_rate"]
    keys += ["aiv", "aiv_total_cycles", *pipe_columns("aiv", ("vec", "scalar", "mte2", "mte3"))]
    return [*keys, "aiv_icache_miss_rate", "cube_utilization"]


def column_name(key: str, table: str, header: str) -> str:
    """``table``: "op_summary" or "kernel_details". ``header``: a key of BLOCK."""
    if key in RENAMED:
        return RENAMED[key][table == "kernel_details"]
    if key in BLOCK[header]:
        return BLOCK[header][key]
    return NAMES.get(key) or (f"{key}(us)" if key.endswith("_time") else key)


def plain(name: str) -> str:
    """A column's name without what changes on the way through a spreadsheet: case, blanks, quotes."""
    return "".join(name.split()).strip("\"'").casefold()


def _known() -> dict[str, tuple[str, int]]:
    """plain name -> (key, rank); where several columns mean the same thing the lowest rank is read."""
    known: dict[str, tuple[str, int]] = {}
    for key in columns(1, "3510", True):
        for table in ("op_summary", "kernel_details"):
            for rank, header in enumerate(BLOCK):
                known.setdefault(plain(column_name(key, table, header)), (key, rank))
        for rank, alias in enumerate(ALIASES.get(key, ()), 2):
            known.setdefault(plain(alias), (key, rank))
    return known


KNOWN = _known()
